// What docs/design/extending.md shows is built as it stands there, and does what it says.
#include <unordered_set>

#include <gtest/gtest.h>

#include "tessera/frontend/graph/op.h"
#include "tests/graph/passes_net.h"
#include "tests/search/toy_space.h"

namespace tessera::search {

std::unique_ptr<Policy> make_climb(const decide::Space& space, Scorer& scorer,
                                   const PolicyOptions& options);

namespace {

TEST(Extending, APolicyProposesLegalCandidatesAndNoneTwice) {
  const space::Space space = testing::make_toy_space(8);
  const std::unique_ptr<Policy> policy = make_climb(space, no_scorer(), {});
  std::unordered_set<decide::Candidate, decide::CandidateHash> seen;
  double first = 0, best = 0;
  for (int batch = 0; batch < 12; ++batch) {
    std::vector<Observation> observations;
    for (const decide::Candidate& c : policy->propose(16)) {
      EXPECT_TRUE(space.check(c).ok());
      EXPECT_TRUE(seen.insert(c).second);
      observations.push_back({c, testing::toy_seconds(space, c), false});
      const double seconds = observations.back().seconds;
      if (seconds > 0 && (best == 0 || seconds < best)) best = seconds;
    }
    ASSERT_EQ(observations.size(), 16u);
    policy->observe(observations);
    if (batch == 0) first = best;
  }
  EXPECT_LT(best, first);
}

TEST(Extending, APolicyExhaustsASmallSpace) {
  const space::Space space = testing::make_toy_space(2);
  const std::unique_ptr<Policy> policy = make_climb(space, no_scorer(), {});
  const auto legal = space.count_legal(1000);
  ASSERT_TRUE(legal.has_value());
  EXPECT_EQ(policy->propose(1000).size(), static_cast<std::size_t>(*legal));
  EXPECT_TRUE(policy->propose(1).empty());
}

}  // namespace
}  // namespace tessera::search

namespace tessera::graph {

Result<bool> divide_by_products(Graph& graph, const PassOptions& options);

namespace {

Graph quotient() {
  Net net;
  const ValueId x = net.input({4, 8}), y = net.weights({8});
  return net.finish({net.op("div", {x, y})});
}

TEST(Extending, ADecisionKeepsThePreferredValueWithoutAPlan) {
  Graph graph = quotient();
  const Result<bool> changed = divide_by_products(graph, {});
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
}

TEST(Extending, ADecisionFollowsThePlan) {
  Graph graph = quotient();
  const Graph before = graph;
  PassOptions options;
  options.decider = std::make_shared<plan::Decider>(plan::Decisions{{"pointwise", plan::kProduct}});
  const Result<bool> changed = divide_by_products(graph, options);
  ASSERT_TRUE(changed.ok());
  EXPECT_TRUE(*changed);
  ASSERT_EQ(options.decider->decided().size(), 1u);
  EXPECT_EQ(options.decider->decided()[0].point.name.substr(0, 7), "divide ");
  compact(graph);
  ASSERT_TRUE(verify(graph).ok());
  for (const Node& node : graph.nodes) EXPECT_STRNE(node.op->name, "div");

  Rng rng(3);
  const std::vector<HostTensor> inputs = {random_tensor(DType::kF32, {4, 8}, rng)};
  const HostTensor want = evaluate(before, inputs).value()[0];
  const HostTensor got = evaluate(graph, inputs).value()[0];
  for (std::int64_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got.get_float(i), want.get_float(i), std::abs(want.get_float(i)) * 0x1p-22);
  }
}

}  // namespace
}  // namespace tessera::graph
