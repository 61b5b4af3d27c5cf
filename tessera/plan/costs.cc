#include "tessera/plan/costs.h"

#include <set>

#include "tessera/support/check.h"

namespace tessera::plan {
namespace {

// The choice of a node: a constant one where one value is impossible.
MinCut::Choice add_node(MinCut& cut, const CostGraph::Node& node) {
  TESSERA_CHECK(node.costs.size() == 2, "{}: a cut chooses between two values", node.key);
  const bool never_first = node.costs[0] >= CostGraph::kNever;
  const bool never_second = node.costs[1] >= CostGraph::kNever;
  TESSERA_CHECK(!never_first || !never_second, "{}: no value is possible", node.key);
  const MinCut::Choice choice = never_second ? cut.no() : never_first ? cut.yes() : cut.add();
  if (!never_second) cut.add_cost(cut.no(), choice, node.costs[1]);
  if (!never_first) cut.add_cost(choice, cut.yes(), node.costs[0]);
  return choice;
}

void add_edge(MinCut& cut, const CostGraph::Edge& edge,
              const std::vector<MinCut::Choice>& choices) {
  if (edge.cost == 0 || edge.to.empty()) return;
  const MinCut::Choice to_second = cut.add(), to_first = cut.add();
  cut.add_cost(choices[edge.from], to_second, edge.cost);
  cut.add_cost(to_first, choices[edge.from], edge.cost);
  for (const std::size_t reader : edge.to) {
    cut.add_cost(to_second, choices[reader], MinCut::kNever);
    cut.add_cost(choices[reader], to_first, MinCut::kNever);
  }
}

}  // namespace

std::int64_t CostGraph::total(const std::vector<std::size_t>& values) const {
  std::int64_t sum = 0;
  for (std::size_t n = 0; n < nodes.size(); ++n) sum += nodes[n].costs.at(values.at(n));
  for (const Edge& edge : edges) {
    std::set<std::size_t> others;
    for (const std::size_t reader : edge.to) {
      if (values[reader] != values[edge.from]) others.insert(values[reader]);
    }
    sum += edge.cost * static_cast<std::int64_t>(others.size());
  }
  return sum;
}

CheapestValues cheapest_values(const CostGraph& graph) {
  MinCut cut;
  std::vector<MinCut::Choice> choices;
  for (const CostGraph::Node& node : graph.nodes) choices.push_back(add_node(cut, node));
  for (const CostGraph::Edge& edge : graph.edges) add_edge(cut, edge, choices);
  CheapestValues out;
  out.cost = cut.solve();
  for (const MinCut::Choice c : choices) out.values.push_back(cut.is_yes(c) ? 1 : 0);
  return out;
}

}  // namespace tessera::plan
