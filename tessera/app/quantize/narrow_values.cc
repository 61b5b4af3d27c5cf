#include "tessera/app/quantize/narrow_values.h"

namespace tessera::app {
namespace {

class Finder {
 public:
  explicit Finder(const onnx::Graph& graph) : index_(graph) {}

  void add(const std::string& name, bool for_all) {
    const auto [found, is_new] = values_.try_emplace(name, NarrowValue{values_.size(), for_all});
    const bool follow = for_all && (is_new || !found->second.for_all);
    found->second.for_all |= for_all;
    const onnx::Node* node = follow ? index_.producer(name) : nullptr;
    if (!node || !(is_plain(*node, "MaxPool") || is_plain(*node, "Concat"))) return;
    for (const std::string& input : node->inputs) {
      if (index_.constant(input)) continue;
      add(input, true);
      join(values_.at(input).group, values_.at(name).group);
    }
  }

  std::map<std::string, NarrowValue> take() { return std::move(values_); }

 private:
  void join(std::size_t from, std::size_t to) {
    for (auto& [name, value] : values_) {
      if (value.group == from) value.group = to;
    }
  }

  const ModelIndex index_;
  std::map<std::string, NarrowValue> values_;
};

}  // namespace

std::map<std::string, NarrowValue> find_narrow_values(const onnx::Graph& graph,
                                                      const std::vector<Layer>& layers) {
  Finder finder(graph);
  for (const Layer& layer : layers) finder.add(layer.x, layer.is_image());
  return finder.take();
}

}  // namespace tessera::app
