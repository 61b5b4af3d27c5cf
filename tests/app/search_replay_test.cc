#include "tessera/app/study/search_replay.h"

#include <gtest/gtest.h>

#include "tests/graphset/graph_case.h"

namespace tessera::app {
namespace {

std::vector<float> scores_of(const graphset::ConfigGraph& g, float sign) {
  std::vector<float> out;
  for (const std::int64_t t : g.runtime_ns) out.push_back(sign * static_cast<float>(t));
  return out;
}

TEST(SearchReplay, JudgesFindWhatDrawingsSeek) {
  const graphset::ConfigGraph g = graphset::testing::layout_graph(60, 200, 3);
  const SearchReplay right = *replay_searches(g, scores_of(g, -1), {.gap = 1e-6});
  EXPECT_EQ(right.name, "chain");
  EXPECT_EQ(right.configs, 200);
  EXPECT_LE(right.judged, 2);
  EXPECT_GT(right.random, 20);
  EXPECT_GT(right.local, 2);
  EXPECT_LT(right.local, right.random);  // near ones take similar times here
  const SearchReplay wrong = *replay_searches(g, scores_of(g, 1), {.gap = 1e-6});
  EXPECT_GT(wrong.judged, 190);
  EXPECT_EQ(wrong.local, right.local);
}

TEST(SearchReplay, ConfigurationsWithoutTimesDoNotCount) {
  graphset::ConfigGraph g = graphset::testing::layout_graph(12, 5, 1);
  const std::vector<float> scores = scores_of(g, -1);
  g.runtime_ns = {0, 0, 7, 0, 0};
  const SearchReplay one = *replay_searches(g, scores);
  EXPECT_EQ(one.configs, 1);
  EXPECT_EQ(one.judged, 1);
  EXPECT_NEAR(one.local, 1, 1e-9);
  g.runtime_ns = {0, 0, 0, 0, 0};
  EXPECT_EQ(replay_searches(g, scores)->configs, 0);
}

}  // namespace
}  // namespace tessera::app
