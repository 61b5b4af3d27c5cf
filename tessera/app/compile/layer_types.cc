#include "tessera/app/compile/layer_types.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "tessera/frontend/plan/point.h"
#include "tessera/support/counted.h"

namespace tessera::app {
namespace {

// Reasons that say that bytes were possible.
constexpr const char* kByPlan = "the plan";
constexpr const char* kByRules = "the rules";
constexpr const char* kDepthwise = "depthwise";
constexpr const char* kGrouped = "grouped";
constexpr const char* kShortSums = "short sums";
constexpr const char* kNotQuantised = "not quantised";

bool is_layer(const graph::Node& node) {
  const std::string_view op = node.op->name;
  return op.starts_with("contract") || op.starts_with("conv");
}

bool is_byte(DType t) { return is_int(t) && size_bytes(t) == 1; }

// The name that points of the node have, from "Conv /layer1/conv1".
std::string node_name(const std::string& origin) {
  const std::size_t space = origin.find(' ');
  return space == std::string::npos ? "" : origin.substr(space + 1);
}

// What the rules see in the shape of a layer that they leave in floats.
const char* shape_reason(const graph::Graph& graph, const graph::Node& node) {
  if (std::string_view(node.op->name) != "conv") return kShortSums;
  if (node.attrs.integer("group", 1) == 1) return kShortSums;
  return graph.shape(node.inputs[1])[1] == 1 ? kDepthwise : kGrouped;
}

}  // namespace

std::vector<LayerType> layer_types(const DecidedModel& model, const CompileOptions& options) {
  const graph::Graph& graph = model.graph;
  std::map<std::string, const plan::Decided*> integers;  // by the key that the importer made
  for (const plan::Decided& d : model.decided) {
    if (d.point.kind == plan::PointKind::kInteger) integers[d.point.name] = &d;
  }
  std::vector<LayerType> out;
  std::set<std::string> known;
  for (const graph::Node& node : graph.nodes) {
    if (!is_layer(node) || (!node.origin.empty() && !known.insert(node.origin).second)) continue;
    // Weights come second, wherever a product reads them.
    const bool turned = graph.constant(node.inputs[0]) != nullptr;
    const DType left = graph.type(node.inputs[turned ? 1 : 0]).dtype;
    const DType right = graph.type(node.inputs[turned ? 0 : 1]).dtype;
    LayerType layer{.name = node.origin, .type = to_text(left), .reason = "the model"};
    const std::string_view op = node.op->name;
    // What is stored narrow is widened where it is read; what is rounded is multiplied narrow.
    if (left != right && op != "contract_stored")
      layer.type = fmt::format("{} x {}", to_text(left), to_text(right));
    layer.bytes = is_byte(right) && (is_byte(left) || op == "contract_rounded");
    const auto point = integers.find("integer " + node_name(node.origin));
    if (point != integers.end()) {
      const plan::Decided& d = *point->second;
      const bool preferred = d.text() == d.point.label(d.point.preferred);
      layer.reason = !preferred ? kByPlan : layer.bytes ? kByRules : shape_reason(graph, node);
    } else if (!integers.empty() && !layer.bytes) {
      layer.reason = kNotQuantised;
    } else if (options.floats != DType::kF32 && (left == options.floats || left == DType::kF32)) {
      layer.reason = left == options.floats ? "--dtype" : "more exact than --dtype";
    }
    out.push_back(std::move(layer));
  }
  return out;
}

std::string layers_line(const std::vector<LayerType>& layers) {
  const auto bytes = std::ranges::count(layers, true, &LayerType::bytes);
  std::map<std::string, std::map<std::string, std::int64_t>> others;  // by type, then reason
  bool offered = bytes > 0;
  for (const LayerType& l : layers) {
    if (l.bytes) continue;
    ++others[l.type][l.reason];
    offered = offered || l.reason == kByPlan || l.reason == kShortSums || l.reason == kDepthwise ||
              l.reason == kGrouped;
  }
  if (!offered) return "";
  std::string out = fmt::format("{} of {} multiply bytes", bytes, counted(layers.size(), "layer"));
  for (const auto& [type, reasons] : others) {
    std::int64_t sum = 0;
    std::vector<std::string> words;
    for (const auto& [reason, count] : reasons) {
      sum += count;
      words.push_back(reasons.size() == 1 ? reason : fmt::format("{} {}", count, reason));
    }
    out += fmt::format("; {} in {}: {}", sum, type, fmt::join(words, ", "));
  }
  return out;
}

}  // namespace tessera::app
