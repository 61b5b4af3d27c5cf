#include "tessera/frontend/plan/costs.h"

#include <gtest/gtest.h>

#include "tessera/frontend/plan/decider.h"
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
  for (const char* key : {"a", "b", "c"}) g.add({key, {"x", "y", "z"}, {0, 0, 0}});
  g.add({0, {1, 2}, 7});
  EXPECT_EQ(g.total({0, 0, 0}), 0);
  EXPECT_EQ(g.total({0, 1, 1}), 7);
  EXPECT_EQ(g.total({0, 1, 2}), 14);
}

CostGraph random_costs(Rng& rng) {
  CostGraph g;
  const auto nodes = static_cast<std::size_t>(rng.between(2, 7));
  for (std::size_t n = 0; n < nodes; ++n) {
    CostGraph::Node node{"", {"x", "y"}, {rng.below(9), rng.below(9)}};
    if (rng.chance(0.3)) node.costs[rng.chance(0.5) ? 0 : 1] = CostGraph::kNever;
    g.add(node);
  }
  for (std::size_t e = 0; e < nodes; ++e) {
    CostGraph::Edge edge{
        static_cast<std::size_t>(rng.below(std::ssize(g.nodes()))), {}, rng.below(9)};
    for (std::size_t n = 0; n < nodes; ++n) {
      if (n != edge.from && rng.chance(0.4)) edge.to.push_back(n);
    }
    g.add(edge);
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
    for (std::size_t bits = 0; bits < std::size_t{1} << g.nodes().size(); ++bits) {
      std::vector<std::size_t> values;
      bool possible = true;
      for (std::size_t n = 0; n < g.nodes().size(); ++n) {
        values.push_back(bits >> n & 1);
        possible = possible && g.nodes()[n].costs[values.back()] < CostGraph::kNever;
      }
      if (possible) best = std::min(best, g.total(values));
    }
    EXPECT_EQ(found.cost, best) << "graph " << i;
  }
}

// What a search does: every flip of every plan changes the total by what change() says.
TEST(CostGraph, AFlipChangesTheTotalByWhatItsEdgesSay) {
  Rng rng(2);
  for (int i = 0; i < 100; ++i) {
    const CostGraph g = random_costs(rng);
    CostGraph::Values values;
    for (std::size_t n = 0; n < g.nodes().size(); ++n) values.push_back(g.legal_values(n).front());
    for (const std::size_t n : g.points()) {
      ASSERT_EQ(g.legal_values(n).size(), 2u);
      for (const std::size_t v : g.legal_values(n)) {
        CostGraph::Values flipped = values;
        flipped[n] = v;
        EXPECT_EQ(g.change(values, n, v), g.total(flipped) - g.total(values));
      }
      values[n] = static_cast<std::size_t>(rng.below(2));
    }
  }
}

TEST(CostGraph, ValuesThatCannotBeCostNever) {
  CostGraph g;
  for (int i = 0; i < 20; ++i) g.add({"", {"x", "y"}, {3, CostGraph::kNever}});
  EXPECT_TRUE(g.points().empty());
  EXPECT_EQ(g.legal_values(7), std::vector<std::size_t>{0});
  EXPECT_EQ(g.total(CostGraph::Values(20, 0)), 60);
  EXPECT_EQ(g.total(CostGraph::Values(20, 1)), CostGraph::kNever);
}

// From the points of one build to the decisions of the next.
TEST(CostGraph, GivesADeciderWhatItFound) {
  const Point conv =
      with_values(make_point(PointKind::kAlgorithm, "conv a", kDirect),
                  [](const std::string& name) { return name == kDirect || name == "winograd4"; });
  const Point a = make_point(PointKind::kLayout, "layout a", kLast);
  const Point b = make_point(PointKind::kLayout, "layout b", kLast);
  Decider walk;
  for (const Point& point : {a, b, conv}) ASSERT_TRUE(walk.decide(point).ok());
  const std::vector<std::vector<std::int64_t>> costs = {{2, 5}, {9, 4}, {8, 3}};
  CostGraph g;
  for (std::size_t i = 0; i < costs.size(); ++i) g.add(walk.decided()[i].point, costs[i]);
  g.add({0, {1}, 1});
  const CheapestValues found = cheapest_values(g);
  EXPECT_EQ(found.cost, 2 + 4 + 3 + 1) << "a conversion costs less than one layout for both";
  Decider next(g.decisions(found.values));
  EXPECT_EQ(next.decide(a).value(), 0);
  EXPECT_EQ(next.decide(b).value(), 1);
  EXPECT_EQ(next.decide(conv).value(), 1);
}

}  // namespace
}  // namespace tessera::plan
