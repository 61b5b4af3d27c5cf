#include "tessera/app/quantize/equalize_layers.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/app/quantize/layers.h"

namespace tessera::app {
namespace {

// A change of one layer moves the channels of its neighbours: sweeps until they rest.
constexpr int kSweeps = 8;
// No channel is scaled by more than this: its values would leave the range of the others.
constexpr double kMostScale = 64;

struct Pair {
  std::size_t first, second;  // indices into the layers
};

bool keeps_positive_factors(const onnx::Node& node) {
  return is_plain(node, "Relu") || is_plain(node, "LeakyRelu");
}

std::vector<Pair> find_pairs(const ModelIndex& index, const std::vector<Layer>& layers) {
  std::map<const onnx::Node*, std::size_t> layer_of;
  for (std::size_t i = 0; i < layers.size(); ++i)
    layer_of[&index.graph().nodes[layers[i].node]] = i;
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].added >= 0) continue;
    std::string value = index.graph().nodes[layers[i].node].outputs[0];
    const onnx::Node* next = index.only_reader(value);
    if (next && keeps_positive_factors(*next)) {
      value = next->outputs[0];
      next = index.only_reader(value);
    }
    const auto found = next ? layer_of.find(next) : layer_of.end();
    if (found == layer_of.end()) continue;
    const Layer& second = layers[found->second];
    if (second.x != value || second.is_image() != layers[i].is_image() ||
        second.inputs() != layers[i].outputs())
      continue;
    pairs.push_back({i, found->second});
  }
  return pairs;
}

// Own copies of the weights, since several nodes may read one.
struct Weights {
  HostTensor weight, bias;  // bias: of no elements where there is none
};

std::vector<double> peaks(const Layer& layer, const HostTensor& weight, bool of_outputs) {
  std::vector<double> out(static_cast<std::size_t>(of_outputs ? layer.outputs() : layer.inputs()));
  for_each_weight(layer, [&](std::int64_t i, std::int64_t o, std::int64_t c) {
    double& peak = out[static_cast<std::size_t>(of_outputs ? o : c)];
    peak = std::max(peak, std::abs(double{weight.as<float>()[i]}));
  });
  return out;
}

void equalize(const Layer& first, const Layer& second, Weights* a, Weights* b) {
  const std::vector<double> left = peaks(first, a->weight, true);
  const std::vector<double> right = peaks(second, b->weight, false);
  std::vector<double> factor(left.size(), 1);
  for (std::size_t c = 0; c < left.size(); ++c) {
    if (left[c] == 0 || right[c] == 0) continue;
    factor[c] = std::clamp(std::sqrt(left[c] / right[c]), 1 / kMostScale, kMostScale);
  }
  for_each_weight(first, [&](std::int64_t i, std::int64_t o, std::int64_t) {
    a->weight.as<float>()[i] /= static_cast<float>(factor[static_cast<std::size_t>(o)]);
  });
  for (std::int64_t o = 0; o < a->bias.size(); ++o)
    a->bias.as<float>()[o] /= static_cast<float>(factor[static_cast<std::size_t>(o)]);
  for_each_weight(second, [&](std::int64_t i, std::int64_t, std::int64_t c) {
    b->weight.as<float>()[i] *= static_cast<float>(factor[static_cast<std::size_t>(c)]);
  });
}

}  // namespace

int equalize_layers(onnx::Graph& graph) {
  const std::vector<Layer> layers = find_layers(graph);
  std::map<std::size_t, Weights> changed;  // by layer
  std::vector<Pair> pairs;
  {
    const ModelIndex index(graph);
    pairs = find_pairs(index, layers);
    for (const Pair& p : pairs) {
      for (const std::size_t i : {p.first, p.second}) {
        const Layer& layer = layers[i];
        changed[i] = {index.constant(layer.weight)->clone(),
                      layer.bias.empty() ? HostTensor(DType::kF32, {0})
                                         : index.constant(layer.bias)->clone()};
      }
    }
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (const Pair& p : pairs)
      equalize(layers[p.first], layers[p.second], &changed[p.first], &changed[p.second]);
  }
  FreshNames fresh(graph);
  for (auto& [i, weights] : changed) {
    const Layer& layer = layers[i];
    std::vector<std::string>& inputs = graph.nodes[layer.node].inputs;
    inputs[1] = add_constant(graph, fresh, layer.weight + "_equalized", std::move(weights.weight));
    if (weights.bias.size() > 0 && layer.added < 0)
      inputs[2] = add_constant(graph, fresh, layer.bias + "_equalized", std::move(weights.bias));
  }
  drop_unused_constants(graph);
  return static_cast<int>(pairs.size());
}

}  // namespace tessera::app
