#include "tessera/frontend/graph/passes/passes.h"

namespace tessera::graph {

Result<bool> remove_dead(Graph& graph, const PassOptions&) {
  const std::size_t nodes = graph.nodes.size();
  compact(graph);
  return graph.nodes.size() != nodes;
}

}  // namespace tessera::graph
