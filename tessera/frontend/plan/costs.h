// What is decided about a model and what it costs: decisions as nodes, conversions between them as
// edges. The object that a search over plans works on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/frontend/plan/min_cut.h"
#include "tessera/frontend/plan/point.h"

namespace tessera::plan {

// Costs are of one unit throughout: bytes that are moved, or picoseconds that were measured.
class CostGraph {
 public:
  static constexpr std::int64_t kNever = MinCut::kNever;

  struct Node {
    std::string key;                  // of Decisions; empty: nothing that a plan names
    std::vector<std::string> values;  // as of a Point
    std::vector<std::int64_t> costs;  // by value; kNever: it cannot be
  };
  // A value that `from` makes and `to` read. Each other value that readers have is converted to
  // once, at this cost, for all of them together.
  struct Edge {
    std::size_t from = 0;
    std::vector<std::size_t> to;
    std::int64_t cost = 0;
  };
  using Values = std::vector<std::size_t>;  // by node: index into its values

  std::size_t add(Node node);  // its index; as many costs as values
  std::size_t add(const Point& point, std::vector<std::int64_t> costs);
  void add(Edge edge);  // of nodes that are there

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Edge>& edges() const { return edges_; }
  // What there is to decide: the nodes with more than one legal value.
  std::vector<std::size_t> points() const;
  std::vector<std::size_t> legal_values(std::size_t node) const;

  // Of a whole plan. At least kNever when one of the values cannot be.
  std::int64_t total(const Values& values) const;
  // What the total changes by when one node takes another value; looks at its edges only.
  std::int64_t change(const Values& values, std::size_t node, std::size_t value) const;
  // For a Decider: the values of all nodes that have a key.
  Decisions decisions(const Values& values) const;

 private:
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<std::vector<std::size_t>> edges_of_;  // by node, each once
};

struct CheapestValues {
  CostGraph::Values values;
  std::int64_t cost = 0;
};

// Exact, by a minimum cut, for nodes of two values; of equal ones the one with most second values.
CheapestValues cheapest_values(const CostGraph& graph);

}  // namespace tessera::plan
