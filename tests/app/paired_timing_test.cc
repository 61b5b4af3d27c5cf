// When the times of two models that take turns have settled, by made-up times.
#include "tessera/app/collect/paired_timing.h"

#include <gtest/gtest.h>

namespace tessera::app {
namespace {

TEST(PairedTiming, QuietMachinesNeedFewRounds) {
  const PairTimes times = time_pair([] { return 1e-3; }, [] { return 2e-3; }, {});
  EXPECT_EQ(times.rounds, 6);
  EXPECT_DOUBLE_EQ(times.first_s, 1e-3);
  EXPECT_DOUBLE_EQ(times.second_s, 2e-3);
  EXPECT_EQ(time_pair([] { return 20e-3; }, [] { return 20e-3; }, {}).rounds, 4);
}

TEST(PairedTiming, GoesOnUntilQuotientsAgree) {
  int call = 0;
  const auto disturbed = [&] { return ++call < 10 ? 1e-3 * (1 + 0.1 * (10 - call)) : 1e-3; };
  const PairTimes times = time_pair(disturbed, [] { return 1e-3; }, {});
  EXPECT_GT(times.rounds, 12);
  EXPECT_LT(times.rounds, 21);
  EXPECT_NEAR(times.first_s, 1e-3, 1e-5);
}

// The core is a third faster for whiles that only a fifth of the runs of the second model meets.
// These rounds are among the fast half, and two fifths of it: 1.3 ms is what is left.
TEST(PairedTiming, LuckyRunsOfOneModelCountAsOftenAsTheyAre) {
  int call = 0;
  const auto lucky = [&] { return ++call % 5 == 0 ? 1e-3 : 1.5e-3; };
  const PairTimes times = time_pair([] { return 1.5e-3; }, lucky, {});
  EXPECT_NEAR(times.first_s, 1.5e-3, 1e-9);
  EXPECT_GT(times.second_s, 1.28e-3);
  EXPECT_LT(times.second_s, 1.4e-3);
}

TEST(PairedTiming, WaitsForTheSpeedThatIsKnown) {
  int call = 0;
  const auto slow_at_first = [&] { return ++call < 10 ? 1.1e-3 : 1e-3; };
  const PairTimes times = time_pair(slow_at_first, [] { return 1e-3; }, {.known_first_s = 1e-3});
  EXPECT_GT(times.rounds, 12);
  EXPECT_NEAR(times.first_s, 1e-3, 2e-5);
}

TEST(PairedTiming, EndsWhereNothingSettles) {
  double seconds = 10e-3;
  const PairTimes times =
      time_pair([&] { return seconds *= 0.95; }, [] { return 1e-3; }, {.limit_s = 0.05});
  EXPECT_LT(times.rounds, 15);
  EXPECT_GT(times.rounds, 5);
}

}  // namespace
}  // namespace tessera::app
