#include "tessera/app/quantize/fold_batch_norms.h"

#include <algorithm>
#include <cmath>

#include "tessera/app/quantize/model_index.h"

namespace tessera::app {
namespace {

bool is_vector(const HostTensor* t, std::int64_t size) {
  return t && t->dtype() == DType::kF32 && t->size() == size;
}

// `norm` as a factor and an addend per channel, applied to the weights of `conv`.
bool fold(const ModelIndex& index, const onnx::Node& norm, onnx::Graph& graph, FreshNames& fresh,
          onnx::Node* conv) {
  const HostTensor* w = index.constant(conv->inputs.at(1));
  const bool biased = conv->inputs.size() > 2 && !conv->inputs[2].empty();
  const HostTensor* b = biased ? index.constant(conv->inputs[2]) : nullptr;
  if (!w || w->dtype() != DType::kF32 || w->shape().empty() || norm.inputs.size() != 5)
    return false;
  const std::int64_t channels = w->shape()[0];
  if (channels == 0 || (biased && !is_vector(b, channels))) return false;
  const HostTensor* parts[4];
  for (std::size_t i = 0; i < 4; ++i) {
    parts[i] = index.constant(norm.inputs[i + 1]);
    if (!is_vector(parts[i], channels)) return false;
  }
  const double epsilon = float_attribute(norm, "epsilon", 1e-5);
  HostTensor weight(DType::kF32, w->shape()), bias(DType::kF32, {channels});
  const std::int64_t row = w->size() / channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double factor = parts[0]->get_float(c) / std::sqrt(parts[3]->get_float(c) + epsilon);
    for (std::int64_t i = c * row; i < (c + 1) * row; ++i)
      weight.set_float(i, w->get_float(i) * factor);
    const double before = b ? b->get_float(c) : 0;
    bias.set_float(c, (before - parts[2]->get_float(c)) * factor + parts[1]->get_float(c));
  }
  const std::string weight_name = conv->inputs[1];
  conv->inputs.resize(3);
  conv->inputs[1] = add_constant(graph, fresh, weight_name + "_folded", std::move(weight));
  conv->inputs[2] = add_constant(graph, fresh, weight_name + "_folded_bias", std::move(bias));
  return true;
}

}  // namespace

int fold_batch_norms(onnx::Graph& graph) {
  const onnx::Graph before = graph;  // tensors are shared
  const ModelIndex index(before);
  FreshNames fresh(graph);
  int folded = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const onnx::Node& norm = before.nodes[i];
    if (!is_plain(norm, "BatchNormalization") || norm.outputs.size() != 1) continue;
    if (norm.inputs.empty() || integer_attribute(norm, "training_mode", 0) != 0) continue;
    const onnx::Node* conv = index.producer(norm.inputs[0]);
    if (!conv || !is_plain(*conv, "Conv") || index.only_reader(norm.inputs[0]) != &norm) continue;
    onnx::Node& changed = graph.nodes[static_cast<std::size_t>(conv - before.nodes.data())];
    if (!fold(index, norm, graph, fresh, &changed)) continue;
    changed.outputs = norm.outputs;
    graph.nodes[i].outputs.clear();
    ++folded;
  }
  std::erase_if(graph.nodes, [](const onnx::Node& node) { return node.outputs.empty(); });
  drop_unused_constants(graph);
  return folded;
}

}  // namespace tessera::app
