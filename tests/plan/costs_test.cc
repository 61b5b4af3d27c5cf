#include "tessera/plan/costs.h"

#include <gtest/gtest.h>

#include "tessera/support/rng.h"

namespace tessera::plan {
namespace {

TEST(MinCut, PaysTheCheapestEdges) {
  MinCut cut;
  const auto a = cut.add(), b = cut.add();
  cut.add_cost(cut.no(), a, 5);
  cut.add_cost(a, b, 2);
  cut.add_cost(b, cut.yes(), 4);
  EXPECT_EQ(cut.solve(), 2);
  EXPECT_FALSE(cut.is_yes(a));
  EXPECT_TRUE(cut.is_yes(b));
}

TEST(CostGraph, AConversionServesAllReadersOfItsOrder) {
  CostGraph g;
  for (const char* key : {"a", "b", "c"}) g.nodes.push_back({key, {0, 0, 0}});
  g.edges.push_back({0, {1, 2}, 7});
  EXPECT_EQ(g.total({0, 0, 0}), 0);
  EXPECT_EQ(g.total({0, 1, 1}), 7);
  EXPECT_EQ(g.total({0, 1, 2}), 14);
}

CostGraph random_costs(Rng& rng) {
  CostGraph g;
  const auto nodes = static_cast<std::size_t>(rng.between(2, 7));
  for (std::size_t n = 0; n < nodes; ++n) {
    CostGraph::Node node{"", {rng.below(9), rng.below(9)}};
    if (rng.chance(0.3)) node.costs[rng.chance(0.5) ? 0 : 1] = CostGraph::kNever;
    g.nodes.push_back(node);
  }
  for (std::size_t e = 0; e < nodes; ++e) {
    CostGraph::Edge edge{
        static_cast<std::size_t>(rng.below(std::ssize(g.nodes))), {}, rng.below(9)};
    for (std::size_t n = 0; n < nodes; ++n) {
      if (n != edge.from && rng.chance(0.4)) edge.to.push_back(n);
    }
    g.edges.push_back(edge);
  }
  return g;
}

TEST(CostGraph, CheapestValuesAreTheBestOfAll) {
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    const CostGraph g = random_costs(rng);
    const CheapestValues found = cheapest_values(g);
    EXPECT_EQ(g.total(found.values), found.cost);
    std::int64_t best = CostGraph::kNever;
    for (std::size_t bits = 0; bits < std::size_t{1} << g.nodes.size(); ++bits) {
      std::vector<std::size_t> values;
      bool possible = true;
      for (std::size_t n = 0; n < g.nodes.size(); ++n) {
        values.push_back(bits >> n & 1);
        possible = possible && g.nodes[n].costs[values.back()] < CostGraph::kNever;
      }
      if (possible) best = std::min(best, g.total(values));
    }
    EXPECT_EQ(found.cost, best) << "graph " << i;
  }
}

}  // namespace
}  // namespace tessera::plan
