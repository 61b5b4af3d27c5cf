// Weights as integers in blocks: so many of those that are summed share a scale.
#pragma once

#include "tessera/app/quantize/layer_weights.h"

namespace tessera::app {

struct Blocks {
  int bits = 4;  // or 8
  std::int64_t size = 32;
  bool symmetric = true;  // without zero points
};

// Scales, and zero points, of the least squared error. Symmetric weights are i8, others u8. The
// bias is corrected as byte_weights does it.
LayerWeights block_weights(const Layer& layer, const HostTensor& weight, const HostTensor* bias,
                           const Observed* x, const Blocks& how);

// What the integers of a block stand for: (integer - zero) * scale.
struct Block {
  double scale = 1;
  double zero = 0;
};
Block fit_block(const std::vector<float>& weights, const Blocks& how);

// Weights as MatMulNBits reads them: bytes, [outputs, blocks, bytes of a block], with the first
// integer in the lowest bits, scales, [outputs * blocks], and zero points, packed row by row.
struct PackedBlocks {
  HostTensor values, scales, zeros;  // zeros of no elements: they are the middle
};
PackedBlocks pack_blocks(const Layer& layer, const LayerWeights& weights, const Blocks& how);

}  // namespace tessera::app
