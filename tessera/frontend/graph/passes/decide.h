// How a pass asks what the plan says.
#pragma once

#include <string>

#include "tessera/frontend/graph/passes/passes.h"

namespace tessera::graph {

// The value of a point: by the decider, or as the point prefers where there is none.
inline Result<std::string> decide(const PassOptions& options, const plan::Point& point) {
  std::int32_t value = point.preferred;
  if (options.decider) {
    TESSERA_TRY(value, options.decider->decide(point));
  }
  return point.label(value);
}

// What a key calls a node: where it came from, which the next version of Tessera knows too; of
// nodes that came from nowhere, the name of their result. Nodes of one name are decided together.
inline std::string name_in_plan(const Graph& graph, const Node& node) {
  return node.origin.empty() ? graph.value(node.outputs[0]).name : node.origin;
}

}  // namespace tessera::graph
