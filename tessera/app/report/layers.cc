#include "tessera/app/report/layers.h"

#include <algorithm>

#include <fmt/format.h>

namespace tessera::report {
namespace {

// Contractions before windows and reductions, these before what moves and adds elements.
int weight_of(const graph::Node& node) {
  switch (node.op->fusion) {
    case graph::Fusion::kContraction:
      return 2;
    case graph::Fusion::kWindow:
    case graph::Fusion::kReduction:
      return 1;
    default:
      return 0;
  }
}

// Of "Conv /layer1/conv1" the second word; a node without a name is its operator.
std::string name_of(const graph::Node& node) {
  const std::size_t space = node.origin.find(' ');
  return space == std::string::npos ? node.origin : node.origin.substr(space + 1);
}

}  // namespace

std::map<std::string, std::vector<std::string>> layers_of(const task::PlannedGraph& planned) {
  std::map<std::string, std::vector<std::string>> out;
  for (const task::Call& call : planned.tasks.calls) {
    const std::vector<std::int32_t>& nodes = planned.tasks.groups[call.group].nodes;
    const auto node = [&](std::int32_t i) -> const graph::Node& {
      return planned.graph.nodes[static_cast<std::size_t>(i)];
    };
    const auto first = std::ranges::max_element(nodes, [&](std::int32_t a, std::int32_t b) {
      return weight_of(node(a)) < weight_of(node(b));
    });
    if (first == nodes.end()) continue;
    out[planned.tasks.tasks[call.task].key].push_back(name_of(node(*first)));
  }
  return out;
}

std::string layers_text(const std::vector<std::string>& layers) {
  if (layers.size() < 2) return layers.empty() ? "" : layers[0];
  return fmt::format("{} and {} more", layers[0], layers.size() - 1);
}

}  // namespace tessera::report
