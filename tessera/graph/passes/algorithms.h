// The decision points of convolutions and their nodes.
#pragma once

#include <optional>
#include <string>

#include "tessera/graph/passes/passes.h"

namespace tessera::graph {

// The point that select_algorithms asks for a node; nullopt: there is nothing to decide.
std::optional<plan::Point> algorithm_point(const Graph& graph, const Node& node,
                                           const plan::Rules& rules);

// The key of the algorithm of a node that has several, before select_algorithms and after it.
std::optional<std::string> algorithm_key(const Graph& graph, const Node& node);

// While one lives, passes of this thread leave the weights that algorithms want in another form
// uncomputed, and only their shapes are right: for those who ask which kernels plans lead to.
class ShapesOnly {
 public:
  ShapesOnly();
  ~ShapesOnly();
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;

  static bool alive();  // in this thread

 private:
  bool before_;
};

}  // namespace tessera::graph
