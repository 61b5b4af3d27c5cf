#include "tessera/trials/measure/measurement.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tessera::measure {
namespace {

TEST(Outcome, TextGoesBothWays) {
  for (int i = 0; i <= static_cast<int>(Outcome::kWorkerLost); ++i) {
    const auto outcome = static_cast<Outcome>(i);
    Outcome back = outcome == Outcome::kOk ? Outcome::kCensored : Outcome::kOk;
    ASSERT_TRUE(outcome_from_text(to_text(outcome), &back)) << i;
    EXPECT_EQ(back, outcome);
  }
  Outcome untouched = Outcome::kRunError;
  EXPECT_FALSE(outcome_from_text("unknown", &untouched));
  EXPECT_FALSE(outcome_from_text("", &untouched));
  EXPECT_EQ(untouched, Outcome::kRunError);
}

TEST(Measurement, SecondsIsTheMedian) {
  EXPECT_TRUE(std::isinf(Measurement{}.seconds()));
  EXPECT_EQ((Measurement{.samples_s = {3, 1, 2}}.seconds()), 2);
  EXPECT_EQ((Measurement{.samples_s = {4, 1, 2, 3}}.seconds()), 2.5);
}

TEST(Measurement, DriftIsDividedOut) {
  EXPECT_DOUBLE_EQ(without_drift(3, 1.5, 1.0), 2.0);
  EXPECT_EQ(without_drift(3, 1.5, 0), 3);
  EXPECT_EQ(without_drift(3, 0, 1.0), 3);
}

}  // namespace
}  // namespace tessera::measure
