// Models with narrow layers, as standard ONNX.
#pragma once

#include "tessera/app/quantize/block_weights.h"
#include "tessera/app/quantize/narrow_values.h"

namespace tessera::app {

enum class Scheme : std::uint8_t {
  kInt8,         // QDQ: bytes with scales from calibration on both sides of a product
  kInt8Dynamic,  // scales of activations are those of the data at hand
  kInt8Weights,  // weights of matrices and tables in blocks; the rest is float
  kInt4Weights,
  kF8,  // as kInt8, with floats of eight bits
};
inline bool rounds_values(Scheme s) { return s == Scheme::kInt8 || s == Scheme::kF8; }
inline bool stores_weights(Scheme s) {
  return s == Scheme::kInt8Weights || s == Scheme::kInt4Weights;
}

// How products with weights in blocks are written.
enum class BlockForm : std::uint8_t {
  kDequantize,  // DequantizeLinear with block_size in front of the product
  kMatMulNBits  // of com.microsoft
};

// The opset that the operators of a scheme need.
std::int64_t needed_opset(Scheme scheme);

// Everything that is written about a model's layers.
struct NarrowModel {
  Scheme scheme = Scheme::kInt8;
  std::vector<Layer> layers;
  std::vector<LayerWeights> weights;          // of the layers
  std::map<std::string, NarrowValue> values;  // of rounds_values()
  std::map<std::size_t, ByteScale> scales;    // of groups of values
  Blocks blocks = {};                         // of stores_weights()
  BlockForm form = BlockForm::kDequantize;
};

// `model` with the layers of which `narrow` is true.
onnx::Model write_narrow(const onnx::Model& model, const NarrowModel& how,
                         const std::vector<bool>& narrow);

// `model` with every layer twice and a choice between them: input switch_name(i), a bool, chooses
// the narrow one of layer i, group_switch_name(g) that its values are rounded to bytes for all.
onnx::Model write_switched(const onnx::Model& model, const NarrowModel& how);
std::string switch_name(std::size_t layer);
std::string group_switch_name(std::size_t group);

}  // namespace tessera::app
