#include "tessera/frontend/plan/costs.h"

#include <algorithm>
#include <set>
#include <utility>

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

// Stays within 64 bits however many values cannot be.
std::int64_t plus(std::int64_t a, std::int64_t b) {
  return a >= CostGraph::kNever || b >= CostGraph::kNever ? CostGraph::kNever : a + b;
}

std::int64_t conversions(const CostGraph::Edge& edge, const CostGraph::Values& values) {
  std::set<std::size_t> others;
  for (const std::size_t reader : edge.to) {
    if (values[reader] != values[edge.from]) others.insert(values[reader]);
  }
  return edge.cost * static_cast<std::int64_t>(others.size());
}

}  // namespace

std::size_t CostGraph::add(Node node) {
  TESSERA_CHECK(node.costs.size() == node.values.size(), "{}: {} costs of {} values", node.key,
                node.costs.size(), node.values.size());
  nodes_.push_back(std::move(node));
  edges_of_.emplace_back();
  return nodes_.size() - 1;
}

std::size_t CostGraph::add(const Point& point, std::vector<std::int64_t> costs) {
  return add(Node{point.name, point.labels, std::move(costs)});
}

void CostGraph::add(Edge edge) {
  std::set<std::size_t> ends(edge.to.begin(), edge.to.end());
  ends.insert(edge.from);
  for (const std::size_t n : ends) edges_of_.at(n).push_back(edges_.size());
  edges_.push_back(std::move(edge));
}

std::vector<std::size_t> CostGraph::legal_values(std::size_t node) const {
  std::vector<std::size_t> out;
  const std::vector<std::int64_t>& costs = nodes_.at(node).costs;
  for (std::size_t v = 0; v < costs.size(); ++v) {
    if (costs[v] < kNever) out.push_back(v);
  }
  return out;
}

std::vector<std::size_t> CostGraph::points() const {
  std::vector<std::size_t> out;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (legal_values(n).size() > 1) out.push_back(n);
  }
  return out;
}

std::int64_t CostGraph::total(const Values& values) const {
  std::int64_t sum = 0;
  for (std::size_t n = 0; n < nodes_.size(); ++n) sum = plus(sum, nodes_[n].costs.at(values.at(n)));
  for (const Edge& edge : edges_) sum = plus(sum, conversions(edge, values));
  return sum;
}

std::int64_t CostGraph::change(const Values& values, std::size_t node, std::size_t value) const {
  const std::vector<std::int64_t>& costs = nodes_.at(node).costs;
  Values flipped = values;
  flipped.at(node) = value;
  std::int64_t sum = costs.at(value) - costs.at(values[node]);
  for (const std::size_t e : edges_of_[node]) {
    sum += conversions(edges_[e], flipped) - conversions(edges_[e], values);
  }
  return sum;
}

Decisions CostGraph::decisions(const Values& values) const {
  Decisions out;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (!nodes_[n].key.empty()) out[nodes_[n].key] = nodes_[n].values.at(values.at(n));
  }
  return out;
}

CheapestValues cheapest_values(const CostGraph& graph) {
  MinCut cut;
  std::vector<MinCut::Choice> choices;
  for (const CostGraph::Node& node : graph.nodes()) choices.push_back(add_node(cut, node));
  for (const CostGraph::Edge& edge : graph.edges()) add_edge(cut, edge, choices);
  CheapestValues out;
  out.cost = cut.solve();
  for (const MinCut::Choice c : choices) out.values.push_back(cut.is_yes(c) ? 1 : 0);
  return out;
}

}  // namespace tessera::plan
