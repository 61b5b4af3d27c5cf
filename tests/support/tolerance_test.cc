#include "tessera/support/tolerance.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tessera {
namespace {

Roundings times(DType t, int n) {
  Roundings r;
  for (int i = 0; i < n; ++i) r.add(t);
  return r;
}

TEST(Tolerance, NothingIsAllowedWhereNothingRounds) {
  EXPECT_FALSE(Roundings().any());
  EXPECT_EQ(tolerance(Roundings()), 0);
  EXPECT_FALSE(times(DType::kI64, 3).any());
  EXPECT_FALSE(times(DType::kBool, 3).any());
  EXPECT_EQ(over_tolerance(0, 0), 0);
  EXPECT_TRUE(std::isinf(over_tolerance(1e-30, 0)));
  EXPECT_DOUBLE_EQ(over_tolerance(2, 4), 0.5);
}

TEST(Tolerance, GrowsWithTheRootOfTheStepsUpToALimit) {
  for (const DType t :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kI16}) {
    const double one = tolerance(times(t, 1));
    EXPECT_GE(one, 2 * unit_roundoff(t)) << "one rounding on either side";
    Roundings many;
    many.add(t, 1e40);
    EXPECT_GE(tolerance(many), one);
    EXPECT_LE(tolerance(many), t == DType::kBF16 ? 0.1 : 0.05);
  }
  EXPECT_DOUBLE_EQ(tolerance(times(DType::kF32, 4)), 2 * tolerance(times(DType::kF32, 1)));
  Roundings sum;
  sum.add(DType::kF32, 4);
  EXPECT_DOUBLE_EQ(tolerance(sum), tolerance(times(DType::kF32, 4)));
}

TEST(Tolerance, TermsRoundHoweverSmallTheirSum) {
  EXPECT_EQ(rounding_of_terms(DType::kF32, 0), 0);
  EXPECT_EQ(rounding_of_terms(DType::kI64, 1), 0);
  EXPECT_DOUBLE_EQ(rounding_of_terms(DType::kF32, 1), 4 * 0x1p-24);
}

TEST(Tolerance, TypesAddUp) {
  Roundings both = times(DType::kF32, 9);
  both.add(times(DType::kU8, 1));
  EXPECT_EQ(both.count(DType::kI8), 1) << "signed and unsigned are one row";
  EXPECT_DOUBLE_EQ(tolerance(both),
                   tolerance(times(DType::kF32, 9)) + tolerance(times(DType::kI8, 1)));
  EXPECT_LT(tolerance(both), 0.02) << "one quantised value is no quantised network";
}

}  // namespace
}  // namespace tessera
