#include "tessera/app/quantize/smooth_layers.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tessera::app {
namespace {

// Less says that no channel stands out: there is nothing to gain.
constexpr double kLeastSpread = 1.5;

bool is_float_vector(const HostTensor* t, std::int64_t size) {
  return t && t->dtype() == DType::kF32 && t->shape() == Shape{size};
}

// The operands that scale a norm and shift it, by node and input: LayerNormalization, or the last
// multiplication and addition of one that is written out.
struct Factors {
  std::vector<std::pair<const onnx::Node*, std::size_t>> operands;
  bool only_here = true;  // nothing else reads the node between them
};

std::optional<std::size_t> vector_operand(const ModelIndex& index, const onnx::Node& node,
                                          std::int64_t size) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (is_float_vector(index.constant(node.inputs[i]), size)) return i;
  }
  return std::nullopt;
}

std::optional<Factors> norm_factors(const ModelIndex& index, const std::string& value,
                                    std::int64_t channels) {
  const onnx::Node* node = index.producer(value);
  if (!node) return std::nullopt;
  if (is_plain(*node, "LayerNormalization")) {
    Factors f;
    for (std::size_t i = 1; i < node->inputs.size(); ++i) {
      if (!is_float_vector(index.constant(node->inputs[i]), channels)) return std::nullopt;
      f.operands.push_back({node, i});
    }
    return f;
  }
  if (!is_plain(*node, "Add") || node->inputs.size() != 2) return std::nullopt;
  const auto shift = vector_operand(index, *node, channels);
  if (!shift) return std::nullopt;
  const std::string& product = node->inputs[1 - *shift];
  const onnx::Node* mul = index.producer(product);
  if (!mul || !is_plain(*mul, "Mul") || mul->inputs.size() != 2) return std::nullopt;
  const auto factor = vector_operand(index, *mul, channels);
  if (!factor) return std::nullopt;
  return Factors{{{node, *shift}, {mul, *factor}}, index.only_reader(product) == node};
}

class Smoother {
 public:
  Smoother(onnx::Graph& graph, const std::map<std::string, Observed>& seen)
      : graph_(graph), before_(graph), index_(before_), fresh_(graph), seen_(seen) {
    for (Layer& layer : find_layers(before_)) {
      if (!layer.is_image()) layers_[layer.x].push_back(std::move(layer));
    }
  }

  int run() {
    int smoothed = 0;
    for (const auto& [x, layers] : layers_) {
      const auto found = seen_.find(x);
      const std::int64_t channels = layers[0].inputs();
      const auto factors = norm_factors(index_, x, channels);
      if (!factors || found == seen_.end() ||
          static_cast<std::int64_t>(found->second.peak.size()) != channels)
        continue;
      const std::vector<double> scale = scales(found->second, layers);
      if (scale.empty()) continue;
      const bool alone = !index_.is_read_elsewhere(x) && factors->only_here &&
                         index_.readers(x).size() == layers.size();
      if (alone) {
        for (const auto& [node, input] : factors->operands) divide(*node, input, scale);
      } else {
        divide_value(x, layers, scale);
      }
      for (const Layer& layer : layers) multiply_weights(layer, scale);
      ++smoothed;
    }
    insert_nodes();
    drop_unused_constants(graph_);
    return smoothed;
  }

 private:
  onnx::Node& now(const onnx::Node& node) {
    return graph_.nodes[static_cast<std::size_t>(&node - before_.nodes.data())];
  }

  std::vector<double> scales(const Observed& seen, const std::vector<Layer>& layers) const {
    std::vector<double> weights(seen.peak.size());
    for (const Layer& layer : layers) {
      const HostTensor& w = *index_.constant(layer.weight);
      for_each_weight(layer, [&](std::int64_t i, std::int64_t, std::int64_t c) {
        double& peak = weights[static_cast<std::size_t>(c)];
        peak = std::max(peak, std::abs(double{w.as<float>()[i]}));
      });
    }
    std::vector<double> out(weights.size(), 1);
    double least = 1e30, most = 0;
    for (std::size_t c = 0; c < out.size(); ++c) {
      if (seen.peak[c] == 0 || weights[c] == 0) continue;
      out[c] = std::sqrt(seen.peak[c] / weights[c]);
      least = std::min(least, out[c]);
      most = std::max(most, out[c]);
    }
    if (most < kLeastSpread * least || most == 0) return {};
    // The range as a whole stays where it was: only what differs between channels moves.
    const double middle = std::sqrt(least * most);
    for (std::size_t c = 0; c < out.size(); ++c) {
      out[c] = seen.peak[c] == 0 || weights[c] == 0 ? 1 : out[c] / middle;
    }
    return out;
  }

  void divide(const onnx::Node& node, std::size_t input, const std::vector<double>& scale) {
    HostTensor v = index_.constant(node.inputs[input])->clone();
    for (std::size_t c = 0; c < scale.size(); ++c)
      v.as<float>()[c] = static_cast<float>(v.as<float>()[c] / scale[c]);
    now(node).inputs[input] =
        add_constant(graph_, fresh_, node.inputs[input] + "_smoothed", std::move(v));
  }

  // A node that divides, for the layers alone.
  void divide_value(const std::string& x, const std::vector<Layer>& layers,
                    const std::vector<double>& scale) {
    HostTensor v(DType::kF32, {static_cast<std::int64_t>(scale.size())});
    for (std::size_t c = 0; c < scale.size(); ++c)
      v.as<float>()[c] = static_cast<float>(1 / scale[c]);
    onnx::Node mul{.name = "", .op_type = "Mul"};
    mul.inputs = {x, add_constant(graph_, fresh_, x + "_smoothing", std::move(v))};
    mul.outputs = {fresh_(x + "_smoothed")};
    for (const Layer& layer : layers) graph_.nodes[layer.node].inputs[0] = mul.outputs[0];
    const onnx::Node* producer = index_.producer(x);
    inserted_[static_cast<std::size_t>(producer - before_.nodes.data())] = std::move(mul);
  }

  void multiply_weights(const Layer& layer, const std::vector<double>& scale) {
    HostTensor w = index_.constant(layer.weight)->clone();
    for_each_weight(layer, [&](std::int64_t i, std::int64_t, std::int64_t c) {
      w.as<float>()[i] = static_cast<float>(w.as<float>()[i] * scale[static_cast<std::size_t>(c)]);
    });
    graph_.nodes[layer.node].inputs[1] =
        add_constant(graph_, fresh_, layer.weight + "_smoothed", std::move(w));
  }

  void insert_nodes() {
    std::vector<onnx::Node> nodes;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      nodes.push_back(std::move(graph_.nodes[i]));
      const auto found = inserted_.find(i);
      if (found != inserted_.end()) nodes.push_back(std::move(found->second));
    }
    graph_.nodes = std::move(nodes);
  }

  onnx::Graph& graph_;
  const onnx::Graph before_;  // tensors are shared
  const ModelIndex index_;
  FreshNames fresh_;
  const std::map<std::string, Observed>& seen_;
  std::map<std::string, std::vector<Layer>> layers_;  // by what they read
  std::map<std::size_t, onnx::Node> inserted_;        // behind that node
};

}  // namespace

int smooth_layers(onnx::Graph& graph, const std::map<std::string, Observed>& seen) {
  return Smoother(graph, seen).run();
}

}  // namespace tessera::app
