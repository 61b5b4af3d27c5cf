// The decision points of convolutions and their nodes.
#pragma once

#include <optional>
#include <string>

#include "tessera/frontend/graph/passes/passes.h"

namespace tessera::graph {

// The point that select_algorithms asks for a node; nullopt: there is nothing to decide.
std::optional<plan::Point> algorithm_point(const Graph& graph, const Node& node,
                                           const plan::Rules& rules);

// The key of the algorithm of a node that has several, before select_algorithms and after it.
std::optional<std::string> algorithm_key(const Graph& graph, const Node& node);

}  // namespace tessera::graph
