// The shared comparison must itself be able to fail.
#include "tests/testing/testing.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tessera::testing {
namespace {

TEST(Mismatch, NamesTheFirstBadIndex) {
  HostTensor got(DType::kF32, {2, 3}), want(DType::kF32, {2, 3});
  EXPECT_EQ(mismatch(got, want, 0), "");
  want.set_float(4, 1);
  want.set_float(5, 1);
  EXPECT_EQ(mismatch(got, want, 0.5),
            "at [1, 1]: got 0, want 1, tolerance 0.5; 2 of 6 elements differ");
  EXPECT_EQ(mismatch(got, want, 1), "");
}

TEST(Mismatch, ComparesSpecialValues) {
  HostTensor got(DType::kF32, {1}), want(DType::kF32, {1});
  got.set_float(0, NAN);
  EXPECT_NE(mismatch(got, want, 1), "");
  want.set_float(0, NAN);
  EXPECT_EQ(mismatch(got, want, 0), "");
  got.set_float(0, INFINITY);
  want.set_float(0, -INFINITY);
  EXPECT_NE(mismatch(got, want, 1), "");
}

TEST(Mismatch, IntegersAreExact) {
  HostTensor got(DType::kI32, {1}), want(DType::kI32, {1});
  got.set_int(0, 1);
  EXPECT_EQ(mismatch(got, want, 100), "at [0]: got 1, want 0; 1 of 1 elements differ");
}

TEST(Mismatch, ShapesAndTypesMustAgree) {
  EXPECT_EQ(mismatch(HostTensor(DType::kF32, {2}), HostTensor(DType::kF16, {2, 1}), 0),
            "got f32 2, want f16 2x1");
}

TEST(Tolerance, GrowsWithLengthAndShrinksWithPrecision) {
  EXPECT_LT(tolerance(DType::kF32, 10), tolerance(DType::kF32, 1000));
  EXPECT_LT(tolerance(DType::kF64, 10), tolerance(DType::kF32, 10));
  EXPECT_LT(tolerance(DType::kF32, 10), tolerance(DType::kF16, 10));
  EXPECT_EQ(tolerance(DType::kI32, 10), 0);
  EXPECT_LT(tolerance(DType::kF32, 4608), 1e-3);  // still catches a missing term
}

}  // namespace
}  // namespace tessera::testing
