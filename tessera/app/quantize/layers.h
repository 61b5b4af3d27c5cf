// The layers that may be computed in narrow types: products with constant weights.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tessera/app/quantize/model_index.h"

namespace tessera::app {

struct Layer {
  enum class Kind : std::uint8_t { kConv, kGemm, kMatMul, kTable };
  Kind kind = Kind::kConv;
  std::size_t node = 0;  // index into the nodes of the graph
  std::string name;      // of the node, or of its output
  std::string x, weight;
  std::string bias;         // empty: none
  std::int64_t added = -1;  // of MatMul: the node that adds the bias, which is not an input
  std::int64_t groups = 1;
  bool turned = false;  // the weight is [out, in], else [in, out]; of Conv always
  Shape shape;          // of the weight

  std::int64_t outputs() const { return turned ? shape[0] : shape[1]; }
  std::int64_t inputs() const;  // channels of x
  // The axis of the weight with one element per output, and that which is summed over.
  std::int64_t output_axis() const { return turned ? 0 : 1; }
  std::int64_t input_axis() const { return turned ? 1 : 0; }
  // Which input of the node the weight is, and which x.
  std::size_t weight_input() const { return kind == Kind::kTable ? 0 : 1; }
  // Channels of x lie along axis 1 of images and along the last axis elsewhere.
  bool is_image() const { return kind == Kind::kConv; }
  // A row for each index: x is not a float.
  bool is_table() const { return kind == Kind::kTable; }
};

// Conv, Gemm without factors and MatMul with a matrix, all of f32 and finite, in the order of
// nodes.
std::vector<Layer> find_layers(const onnx::Graph& graph);

// Those whose weights are matrices, and tables of which a Gather, and nothing else, takes rows.
std::vector<Layer> find_matrices(const onnx::Graph& graph);

// Calls visit(element, output channel, input channel) for each weight, in their order.
template <class Visit>
void for_each_weight(const Layer& layer, const Visit& visit) {
  const std::int64_t rows = layer.shape[0], columns = layer.shape[1];
  const std::int64_t taps = rows * columns == 0 ? 0 : elements(layer.shape) / (rows * columns);
  const std::int64_t in_group = std::max<std::int64_t>(rows / layer.groups, 1);
  std::int64_t i = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t out = layer.turned ? r : c;
      const std::int64_t in = layer.turned ? r / in_group * columns + c : r;
      for (std::int64_t t = 0; t < taps; ++t) visit(i++, out, in);
    }
  }
}

}  // namespace tessera::app
