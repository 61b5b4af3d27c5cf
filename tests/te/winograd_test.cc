#include "tessera/te/ops/winograd.h"

#include <gtest/gtest.h>

#include "tests/testing/testing.h"

namespace tessera::te {
namespace {

TEST(WinogradWeights, F2OfAConstantKernel) {
  HostTensor w(DType::kF32, {1, 1, 3, 3});
  for (std::int64_t i = 0; i < 9; ++i) w.set_float(i, 1);
  const HostTensor u = winograd_weights(w, 2).value();
  ASSERT_EQ(u.shape(), (Shape{4, 4, 1, 1}));
  // G [1 1 1]^T = [1, 3/2, 1/2, 1] up to the sign of rows, which squares away on the diagonal.
  const double row[] = {1, 1.5, 0.5, 1};
  for (std::int64_t e = 0; e < 4; ++e) EXPECT_EQ(u.get_float(e * 4 + e), row[e] * row[e]);
}

TEST(WinogradWeights, LayoutIsTransformThenInputThenOutputChannel) {
  HostTensor w(DType::kF32, {2, 3, 3, 3});
  w.set_float((1 * 3 + 2) * 9, 1);  // co = 1, ci = 2, tap (0, 0)
  const HostTensor u = winograd_weights(w, 4).value();
  ASSERT_EQ(u.shape(), (Shape{6, 6, 3, 2}));
  EXPECT_EQ(u.get_float(2 * 2 + 1), 1.0 / 16);
  EXPECT_EQ(u.get_float(0), 0);
}

TEST(WinogradWeights, HalfPrecisionWeightsGiveFloat) {
  EXPECT_EQ(winograd_weights(HostTensor(DType::kF16, {1, 1, 3, 3}), 6).value().dtype(),
            DType::kF32);
}

TEST(WinogradWeights, RefusesOtherShapesTypesAndSizes) {
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kF32, {1, 1, 5, 5}), 2).ok());
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kF32, {1, 3, 3}), 2).ok());
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kI8, {1, 1, 3, 3}), 2).ok());
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kF32, {1, 1, 3, 3}), 3).ok());
}

}  // namespace
}  // namespace tessera::te
