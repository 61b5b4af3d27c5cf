// What decisions cost, on nodes and on the edges between them, and the cheapest ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/plan/min_cut.h"

namespace tessera::plan {

// Costs are of one unit throughout: bytes that are moved, or picoseconds that were measured.
struct CostGraph {
  static constexpr std::int64_t kNever = MinCut::kNever;

  struct Node {
    std::string key;
    std::vector<std::int64_t> costs;  // by value; kNever: it cannot be
  };
  // A value that `from` makes and `to` read. Each other value that readers have is converted to
  // once, at this cost, for all of them together.
  struct Edge {
    std::size_t from = 0;
    std::vector<std::size_t> to;
    std::int64_t cost = 0;
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;

  // Of one value for each node.
  std::int64_t total(const std::vector<std::size_t>& values) const;
};

struct CheapestValues {
  std::vector<std::size_t> values;  // by node
  std::int64_t cost = 0;
};

// Exact, by a minimum cut, for nodes of two values; of equal ones the one with most second values.
CheapestValues cheapest_values(const CostGraph& graph);

}  // namespace tessera::plan
