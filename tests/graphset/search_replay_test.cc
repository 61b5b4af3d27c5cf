#include "tessera/learn/graphset/search_replay.h"

#include <gtest/gtest.h>

#include "tessera/learn/graphset/ranking.h"
#include "tests/graphset/graph_case.h"

namespace tessera::graphset {
namespace {

std::vector<float> scores_of(const ConfigGraph& g, float sign) {
  std::vector<float> out;
  for (const std::int64_t t : g.runtime_ns) out.push_back(sign * static_cast<float>(t));
  return out;
}

TEST(SearchReplay, JudgesFindWhatDrawingsSeek) {
  const ConfigGraph g = testing::layout_graph(60, 200, 3);
  const SearchReplay right = replay_searches(g, scores_of(g, -1), {.gap = 1e-6});
  EXPECT_EQ(right.name, "chain");
  EXPECT_EQ(right.configs, 200);
  EXPECT_LE(right.judged, 2);
  EXPECT_GT(right.random, 20);
  EXPECT_GT(right.annealing, 2);
  EXPECT_LT(right.annealing, right.random);  // near ones take similar times here
  const SearchReplay wrong = replay_searches(g, scores_of(g, 1), {.gap = 1e-6});
  EXPECT_GT(wrong.judged, 190);
  EXPECT_EQ(wrong.annealing, right.annealing);
}

TEST(SearchReplay, ConfigurationsWithoutTimesDoNotCount) {
  ConfigGraph g = testing::layout_graph(12, 5, 1);
  const std::vector<float> scores = scores_of(g, -1);
  g.runtime_ns = {0, 0, 7, 0, 0};
  const SearchReplay one = replay_searches(g, scores);
  EXPECT_EQ(one.configs, 1);
  EXPECT_EQ(one.judged, 1);
  EXPECT_NEAR(one.annealing, 1, 1e-9);
  g.runtime_ns = {0, 0, 0, 0, 0};
  EXPECT_EQ(replay_searches(g, scores).configs, 0);
}

TEST(JoinConfigs, MakesTimesComparable) {
  ConfigGraph a = take_configs(testing::layout_graph(60, 12, 1), {0, 1, 2, 3});
  ConfigGraph b = take_configs(testing::layout_graph(60, 12, 1), {0, 4, 5});
  a.estimate_ns = {100, 110, 120, 130};
  b.estimate_ns = {200, 220, 240};
  const std::vector<std::int64_t> alone = b.runtime_ns;
  for (std::int64_t& t : b.runtime_ns) t *= 2;  // of a machine that was half as fast
  const auto both = join_configs(a, b);
  ASSERT_TRUE(both.ok()) << both.error().message;
  ASSERT_TRUE(check(*both).ok());
  ASSERT_EQ(both->size(), 7);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(both->runtime_ns[4 + i], alone[i]);
  EXPECT_EQ(both->estimate_ns, (std::vector<std::int64_t>{100, 110, 120, 130, 100, 110, 120}));
  EXPECT_LT(merge_equal(*both).size(), both->size());
  b.estimate_ns.clear();
  EXPECT_TRUE(join_configs(a, b)->estimate_ns.empty());
}

TEST(JoinConfigs, RefusesOtherPrograms) {
  const ConfigGraph a = testing::layout_graph(60, 12, 1);
  EXPECT_EQ(join_configs(a, testing::layout_graph(30, 12, 1)).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_FALSE(join_configs(a, take_configs(a, {1, 2})).ok());
}

}  // namespace
}  // namespace tessera::graphset
