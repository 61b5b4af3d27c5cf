#include "tessera/learn/graphset/ranking.h"

#include <numeric>

#include <gtest/gtest.h>

#include "tessera/support/rng.h"
#include "tests/graphset/graph_case.h"

namespace tessera::graphset {
namespace {

using testing::layout_graph;
using testing::tile_graph;

std::vector<float> perfect(const ConfigGraph& g) {
  std::vector<float> scores;
  scores.reserve(g.runtime_ns.size());
  for (std::int64_t i = 0; i < g.size(); ++i) scores.push_back(static_cast<float>(-g.cost(i)));
  return scores;
}

TEST(Ranking, KnowsTheBestAndTheWorst) {
  const ConfigGraph g = merge_equal(layout_graph(30, 200, 1));
  std::vector<float> scores = perfect(g);
  const Ranking best = rank(g, scores);
  EXPECT_EQ(best.configs, g.size());
  EXPECT_NEAR(best.tau, 1, 1e-9);
  EXPECT_NEAR(best.pairwise, 1, 1e-9);
  for (const int k : {1, 5, 10, 100}) EXPECT_EQ(best.slowdown.at(k), 0) << k;
  for (float& s : scores) s = -s;
  const Ranking worst = rank(g, scores);
  EXPECT_NEAR(worst.tau, -1, 1e-9);
  EXPECT_GT(worst.slowdown.at(1), 0);
  EXPECT_GE(worst.slowdown.at(1), worst.slowdown.at(100));
}

TEST(Ranking, LeavesOutConfigurationsWithoutATime) {
  ConfigGraph g = tile_graph(20, 1);
  const std::vector<float> scores = perfect(g);
  g.runtime_ns[3] = 0;
  EXPECT_EQ(rank(g, scores).configs, 19);
  std::fill(g.runtime_ns.begin(), g.runtime_ns.end(), 0);
  EXPECT_EQ(rank(g, scores).configs, 0);
}

TEST(Ranking, MergesEqualConfigurations) {
  ConfigGraph g = take_configs(layout_graph(60, 4, 1), {0, 1, 0, 2, 0});
  g.runtime_ns = {100, 5, 200, 7, 300};
  const ConfigGraph merged = merge_equal(g);
  EXPECT_EQ(merged.runtime_ns, (std::vector<std::int64_t>{200, 5, 7}));
  const Repeats repeats = study_repeats(g);
  EXPECT_EQ(repeats.distinct, 3);
  EXPECT_EQ(repeats.repeated, 1);
  EXPECT_NEAR(repeats.p95_noise, 0.5, 1e-9);
}

TEST(Ranking, CeilingFallsWithNoise) {
  const ConfigGraph g = merge_equal(layout_graph(30, 300, 1));
  EXPECT_EQ(study_repeats(g).ceiling, 1);
  std::vector<std::int64_t> twice(static_cast<std::size_t>(g.size()) * 2);
  for (std::size_t i = 0; i < twice.size(); ++i) twice[i] = static_cast<std::int64_t>(i / 2);
  const auto noisy = [&](std::int64_t ns) {
    ConfigGraph out = take_configs(g, twice);
    for (std::size_t i = 0; i < twice.size(); i += 2) {
      out.runtime_ns[i] += ns;
      out.runtime_ns[i + 1] -= ns;
    }
    return study_repeats(out).ceiling;
  };
  EXPECT_NEAR(noisy(0), 1, 1e-9);
  EXPECT_LT(noisy(2000), 0.98);
  EXPECT_LT(noisy(20000), noisy(2000) - 0.2);
}

// What noise allows is known where times are sums and the noise is drawn.
TEST(Ranking, CeilingIsThatOfSumsWhichSayMoreThanMeasurements) {
  const ConfigGraph g = merge_equal(layout_graph(36, 2000, 1));
  std::vector<std::int64_t> twice;
  for (std::int64_t i = 0; i < 2 * g.size(); ++i) twice.push_back(i / 2);
  ConfigGraph measured = take_configs(g, twice), right = g;
  Rng rng(7);
  for (std::int64_t i = 0; i < g.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    right.runtime_ns[at] = 1'000'000;
    for (std::int64_t p = 0; p < g.places(); ++p) {
      if (g.config(i)[p * g.config_columns()] == 1) right.runtime_ns[at] += 131 * p + 17 * p * p;
    }
    for (const std::size_t k : {2 * at, 2 * at + 1})
      measured.runtime_ns[k] = right.runtime_ns[at] + rng.between(-3000, 3000);
  }
  const double possible = rank(merge_equal(measured), perfect(right)).tau;
  const Repeats repeats = study_repeats(measured);
  EXPECT_GT(repeats.summed, repeats.agreement);
  EXPECT_NEAR(repeats.ceiling, possible, 0.02);
  // Sums over places know nothing of times that differ by what no place says.
  for (std::int64_t& ns : measured.runtime_ns) ns = 1'000'000;
  for (std::size_t i = 0; i < measured.runtime_ns.size(); ++i)
    measured.runtime_ns[i] += static_cast<std::int64_t>(i / 2 % 97 * 1000) + rng.between(-50, 50);
  const Repeats other = study_repeats(measured);
  EXPECT_LT(other.summed, other.agreement);
  EXPECT_GT(other.ceiling, 0.95);
}

TEST(Ranking, SidesShareNoConfiguration) {
  const ConfigGraph g = take_configs(layout_graph(30, 400, 1), [] {
    std::vector<std::int64_t> twice;
    twice.reserve(800);
    for (std::int64_t i = 0; i < 800; ++i) twice.push_back(i % 400);
    return twice;
  }());
  const ConfigGraph learnt = take_side(g, 0.5, true), rest = take_side(g, 0.5, false);
  EXPECT_EQ(learnt.size() + rest.size(), g.size());
  EXPECT_GT(learnt.size(), 250);
  EXPECT_GT(rest.size(), 250);
  EXPECT_EQ(equal_configs(learnt).size() + equal_configs(rest).size(), equal_configs(g).size());
  EXPECT_EQ(take_side(g, 1, true).size(), g.size());
  EXPECT_EQ(take_side(g, 0, true).size(), 0);
}

}  // namespace
}  // namespace tessera::graphset
