#include "tessera/app/quantize/layers.h"

#include <algorithm>
#include <cmath>

namespace tessera::app {
namespace {

// Infinities and NaN have no scale.
bool is_finite(const HostTensor& t) {
  const float* begin = t.as<float>();
  return std::all_of(begin, begin + t.size(), [](float v) { return std::isfinite(v); });
}

// The constant vector that an Add puts on every row of `product`.
void find_added(const ModelIndex& index, const std::string& product, Layer* layer) {
  const onnx::Node* add = index.only_reader(product);
  if (!add || !is_plain(*add, "Add") || add->inputs.size() != 2) return;
  const std::string& other = add->inputs[add->inputs[0] == product ? 1 : 0];
  const HostTensor* b = index.constant(other);
  if (!b || b->dtype() != DType::kF32 || b->shape() != Shape{layer->outputs()} || !is_finite(*b))
    return;
  layer->bias = other;
  layer->added = add - index.graph().nodes.data();
}

bool is_product(const onnx::Node& node, Layer* layer) {
  if (!node.domain.empty() || node.inputs.size() < 2 || node.outputs.size() != 1) return false;
  if (node.op_type == "Conv") {
    layer->kind = Layer::Kind::kConv;
    layer->groups = integer_attribute(node, "group", 1);
    layer->turned = true;
    return true;
  }
  if (node.op_type == "Gemm") {
    layer->kind = Layer::Kind::kGemm;
    layer->turned = integer_attribute(node, "transB", 0) != 0;
    return integer_attribute(node, "transA", 0) == 0 && float_attribute(node, "alpha", 1) == 1 &&
           float_attribute(node, "beta", 1) == 1;
  }
  layer->kind = Layer::Kind::kMatMul;
  return node.op_type == "MatMul";
}

}  // namespace

std::int64_t Layer::inputs() const { return turned ? shape[1] * groups : shape[0]; }

std::vector<Layer> find_matrices(const onnx::Graph& graph) {
  std::vector<Layer> layers = find_layers(graph);
  std::erase_if(layers, [](const Layer& layer) { return layer.is_image(); });
  const ModelIndex index(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const onnx::Node& node = graph.nodes[i];
    if (!is_plain(node, "Gather") || node.inputs.size() != 2 || node.outputs.size() != 1) continue;
    const HostTensor* table = index.constant(node.inputs[0]);
    if (!table || table->dtype() != DType::kF32 || table->shape().size() != 2 ||
        table->size() == 0 || integer_attribute(node, "axis", 0) != 0 ||
        index.constant(node.inputs[1]) || !index.only_reader(node.inputs[0]) || !is_finite(*table))
      continue;
    layers.push_back({.kind = Layer::Kind::kTable,
                      .node = i,
                      .name = node.name.empty() ? node.outputs[0] : node.name,
                      .x = node.inputs[1],
                      .weight = node.inputs[0],
                      .turned = true,
                      .shape = table->shape()});
  }
  std::ranges::sort(layers, {}, &Layer::node);
  return layers;
}

std::vector<Layer> find_layers(const onnx::Graph& graph) {
  const ModelIndex index(graph);
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const onnx::Node& node = graph.nodes[i];
    Layer layer;
    if (!is_product(node, &layer)) continue;
    const HostTensor* w = index.constant(node.inputs[1]);
    const bool narrow_rank = layer.kind != Layer::Kind::kConv;
    if (!w || w->dtype() != DType::kF32 || w->size() == 0 || index.constant(node.inputs[0]) ||
        !is_finite(*w))
      continue;
    if (narrow_rank ? w->shape().size() != 2 : w->shape().size() < 3) continue;
    layer.shape = w->shape();
    if (layer.groups < 1 || layer.shape[0] % layer.groups != 0) continue;
    layer.node = i;
    layer.name = node.name.empty() ? node.outputs[0] : node.name;
    layer.x = node.inputs[0];
    layer.weight = node.inputs[1];
    if (node.inputs.size() > 2) layer.bias = node.inputs[2];
    const HostTensor* b = layer.bias.empty() ? nullptr : index.constant(layer.bias);
    if (!layer.bias.empty() &&
        (!b || b->dtype() != DType::kF32 || b->shape() != Shape{layer.outputs()} || !is_finite(*b)))
      continue;
    if (layer.kind == Layer::Kind::kMatMul) find_added(index, node.outputs[0], &layer);
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace tessera::app
