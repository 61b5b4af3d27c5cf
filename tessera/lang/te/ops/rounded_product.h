// Products of floats with stored weights whose left operand is rounded to bytes, block by block:
// sums within a block are those of integers, and each is scaled once.
#pragma once

#include "tessera/lang/te/ops/window.h"

namespace tessera::te {

// Neighbours along the sum with a scale in common, of the left operand.
inline constexpr std::int64_t kRoundedBlock = 32;

// Weights of a column: blocks of as many elements as the left operand's, or 16 of 32. An element q
// stands for (q - zero) * scale, or q * scale + zero where it `adds`.
struct RoundedWeights {
  // u8 [columns, blocks, bytes]. Of 4 bits, byte i holds element i in its low half, and the one as
  // many behind as the block has bytes in its high half.
  ir::Buffer data;
  int bits = 8;
  ir::Buffer scale;  // [columns, groups], each of the same number of blocks
  ir::Buffer zero;   // [columns, groups]; null: none but `offset`
  bool adds = false;
  std::int64_t offset = 0;  // of q: the data hold q + offset

  std::int64_t columns() const { return data->shape[0]; }
  std::int64_t blocks() const { return data->shape[1]; }
  std::int64_t block() const { return data->shape[2] * (8 / bits); }
};

// Stage `name`: y[.., j] = sum over k of x[.., k] * w[j, k] in f32. Of a block b of x:
//   s = max |x| / 127, r = x / s rounded half to even (0 where s is not above 1e-30),
//   sums = sum of r, dots = sum of r * (q + offset), an exact integer,
//   y += (dots - (offset + zero) * sums) * scale * s, or ((dots - offset * sums) * scale + zero *
//   sums) * s.
// Stages "name.step", "name.bytes", "name.sums" and "name.dots" have s, r, sums and dots.
Stage rounded_product_stage(DagBuilder& b, const std::string& name, const ir::Buffer& x,
                            const RoundedWeights& w);

}  // namespace tessera::te
