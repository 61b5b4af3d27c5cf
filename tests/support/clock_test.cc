#include "tessera/support/clock.h"

#include <limits>

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Clock, CountsSecondsBetweenTwoTimes) {
  const Clock::time_point start{};
  EXPECT_DOUBLE_EQ(seconds_between(start, start + std::chrono::milliseconds(1500)), 1.5);
  EXPECT_DOUBLE_EQ(seconds_between(start + std::chrono::seconds(2), start), -2);
}

TEST(Clock, GoesForward) {
  const Clock::time_point start = Clock::now();
  const double first_s = seconds_since(start), then_s = seconds_since(start);
  EXPECT_GE(first_s, 0);
  EXPECT_GE(then_s, first_s);
  EXPECT_GE(milliseconds_since(start), 1e3 * then_s);
}

TEST(Clock, KnowsWhatIsLeft) {
  const double left_s = seconds_until(seconds_from_now(1000));
  EXPECT_LE(left_s, 1000);
  EXPECT_GT(left_s, 0);
  EXPECT_LT(seconds_until(Clock::now() - std::chrono::hours(1)), 0);
}

TEST(Clock, EndsNeitherBeforeNowNorBeyondItsRange) {
  const Clock::time_point before = Clock::now(), end = seconds_from_now(-5);
  EXPECT_GE(end, before);
  EXPECT_LE(end, Clock::now());
  EXPECT_GT(seconds_until(seconds_from_now(std::numeric_limits<double>::infinity())), 9e7);
}

}  // namespace
}  // namespace tessera
