#include "tessera/trials/measure/turns.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace tessera::measure {
namespace {

std::ptrdiff_t runs_with(const std::vector<std::vector<std::size_t>>& round, std::size_t place,
                         std::size_t candidate) {
  return std::count_if(round.begin(), round.end(),
                       [&](const auto& run) { return run[place] == candidate; });
}

TEST(Turns, EachCandidateIsInOneRunAndTheOwnKernelInTheOthers) {
  const std::vector<Turns> places = {{{0, 1, 2}, false}, {{3}, false}, {{}, false}};
  Rng rng(1);
  std::set<std::size_t> met;  // by candidate 3 of the other place
  for (int i = 0; i < 100; ++i) {
    const auto round = draw_round(places, rng);
    ASSERT_EQ(round.size(), 4u);
    for (const std::size_t c : {0, 1, 2}) EXPECT_EQ(runs_with(round, 0, c), 1);
    EXPECT_EQ(runs_with(round, 0, kOwnKernel), 1);
    EXPECT_EQ(runs_with(round, 1, 3), 1);
    EXPECT_EQ(runs_with(round, 1, kOwnKernel), 3);
    EXPECT_EQ(runs_with(round, 2, kOwnKernel), 4);
    for (const auto& run : round)
      if (run[1] == 3) met.insert(run[0]);
  }
  EXPECT_EQ(met, (std::set<std::size_t>{0, 1, 2, kOwnKernel})) << "neighbours differ";
}

TEST(Turns, ThoseThatBelongTogetherShareTheirRuns) {
  const std::vector<Turns> places = {{{0}, true}, {{1}, false}, {{2}, true}};
  Rng rng(1);
  int first = 0, apart = 0;
  for (int i = 0; i < 100; ++i) {
    const auto round = draw_round(places, rng);
    ASSERT_EQ(round.size(), 2u);
    for (const auto& run : round) EXPECT_EQ(run[0] == 0, run[2] == 2);
    first += round[0][0] == 0 ? 1 : 0;
    apart += (round[0][0] == 0) != (round[0][1] == 1) ? 1 : 0;
  }
  EXPECT_GT(first, 20);
  EXPECT_LT(first, 80);
  EXPECT_GT(apart, 20);
}

TEST(Turns, CleanTimesCount) {
  const std::vector<TimedCall> calls = {
      {1, true, 0}, {2, false, 0.5}, {3, true, 0}, {4, false, 0.1}};
  EXPECT_EQ(kept_seconds(calls, 1), (std::vector<double>{1, 3}));
  EXPECT_EQ(kept_seconds(calls, 3), (std::vector<double>{1, 3, 4})) << "that waited least";
  EXPECT_EQ(kept_seconds(calls, 9), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_TRUE(kept_seconds({}, 3).empty());
}

}  // namespace
}  // namespace tessera::measure
