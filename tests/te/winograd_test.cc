#include "tessera/lang/te/ops/winograd.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/lang/ir/visitor.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/lang/te/ops/winograd_transposed.h"
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

TEST(WinogradWeights, DepthComesBeforeTheChannels) {
  HostTensor w(DType::kF32, {2, 3, 2, 3, 3});
  w.set_float(((1 * 3 + 2) * 2 + 1) * 9, 1);  // co = 1, ci = 2, frame 1, tap (0, 0)
  const HostTensor u = winograd_weights(w, 4).value();
  ASSERT_EQ(u.shape(), (Shape{6, 6, 2, 3, 2}));
  EXPECT_EQ(u.get_float((1 * 3 + 2) * 2 + 1), 1.0 / 16);
  EXPECT_EQ(u.get_float(2 * 2 + 1), 0);
}

TEST(WinogradWeights, HalfPrecisionWeightsGiveFloat) {
  EXPECT_EQ(winograd_weights(HostTensor(DType::kF16, {1, 1, 3, 3}), 6).value().dtype(),
            DType::kF32);
}

TEST(WinogradWeights, RefusesOtherShapesTypesAndSizes) {
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kF32, {1, 1, 1, 1}), 2).ok());
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kF32, {1, 1, 5, 5}), 6).ok());
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kF32, {1, 3, 3}), 2).ok());
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kI8, {1, 1, 3, 3}), 2).ok());
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kF32, {1, 1, 3, 3}), 3).ok());
}

TEST(WinogradWeights, OneTapIsNotTransformed) {
  HostTensor w(DType::kF32, {2, 3, 1, 7});
  w.set_float((1 * 3 + 2) * 7, 1);  // co = 1, ci = 2, the first tap
  const HostTensor u = winograd_weights(w, 4).value();
  ASSERT_EQ(u.shape(), (Shape{1, 10, 3, 2}));
  EXPECT_EQ(u.shape(), winograd_weights_shape(w.shape(), 4));
  EXPECT_NE(u.get_float(2 * 2 + 1), 0);            // at point 0
  EXPECT_EQ(u.get_float((9 * 3 + 2) * 2 + 1), 0);  // at infinity
}

std::vector<TransposedWindow> transposed(std::int64_t kernel, std::int64_t stride,
                                         std::int64_t pad) {
  TransposedWindow w{.axis = "h", .size = 5, .kernel = kernel, .stride = stride, .pad_lo = pad};
  w.out = (w.size - 1) * stride + kernel - 2 * pad;
  return {w, w};
}

TEST(PhasedAxis, PhasesHaveTheirTaps) {
  const PhasedAxis skewed(transposed(4, 2, 1)[0]);
  EXPECT_TRUE(skewed.skewed);
  EXPECT_EQ(skewed.reach, 3);
  EXPECT_EQ(skewed.products(4), 5);
  // Result 0 meets taps 3 and 1 of inputs -1 and 0; result 1 taps 2 and 0 of inputs 0 and 1.
  EXPECT_EQ(skewed.first(), -1);
  EXPECT_EQ(skewed.tap(0, 0), 3);
  EXPECT_EQ(skewed.tap(0, 1), 1);
  EXPECT_EQ(skewed.tap(0, 2), -1);
  EXPECT_EQ(skewed.tap(1, 0), -1);
  EXPECT_EQ(skewed.tap(1, 1), 2);
  EXPECT_EQ(skewed.tap(1, 2), 0);
  const PhasedAxis even(transposed(3, 2, 0)[0]);
  EXPECT_FALSE(even.skewed);
  EXPECT_EQ(even.reach, 2);
  EXPECT_EQ(even.products(4), 5);
  EXPECT_EQ(even.tap(1, 0), -1);  // the kernel ends before it
}

TEST(HasWinograd, WindowsThatRoundTooMuchAreLeftOut) {
  EXPECT_TRUE(has_winograd(3, 3, 6));
  EXPECT_TRUE(has_winograd(1, 7, 6));
  EXPECT_TRUE(has_winograd(5, 5, 4));
  EXPECT_FALSE(has_winograd(5, 5, 6));
  EXPECT_FALSE(has_winograd(1, 9, 6));
  EXPECT_FALSE(has_winograd(1, 1, 2));
  EXPECT_FALSE(has_winograd(3, 3, 3));
  EXPECT_TRUE(has_winograd(transposed(4, 2, 1), 4));
  EXPECT_FALSE(has_winograd(transposed(2, 2, 0), 4));  // phases of one tap
}

TEST(WinogradWeights, PhasesSkipThePointThatGivesZero) {
  HostTensor w(DType::kF32, {1, 1, 4, 4});
  for (std::int64_t i = 0; i < 16; ++i) w.set_float(i, 1);
  const HostTensor u = winograd_weights(w, transposed(4, 2, 1), 2).value();
  ASSERT_EQ(u.shape(), (Shape{2, 2, 3, 3, 1, 1}));
  for (std::int64_t e = 0; e < u.size(); ++e) {
    // Taps 1, 1 at the points 0, 1, -1, and at 1, -1 and infinity: only at -1 they cancel.
    const std::int64_t nu = e % 3, eps = e / 3 % 3, rx = e / 9 % 2, ry = e / 18;
    const bool zero = eps == (ry == 0 ? 2 : 1) || nu == (rx == 0 ? 2 : 1);
    EXPECT_EQ(u.get_float(e) == 0, zero) << e;
  }
  EXPECT_FALSE(winograd_weights(w, transposed(2, 2, 0), 2).ok());
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kI8, {1, 1, 4, 4}), transposed(4, 2, 1), 2).ok());
}

// Additions and subtractions of floats that differ from each other.
std::size_t distinct_sums(const Dag& dag, const std::string& stage) {
  std::vector<ir::Expr> found;
  for (const Op& op : dag.ops) {
    if (op.name != stage) continue;
    ir::for_each_expr(op.values[0], [&](const ir::Expr& e) {
      const auto* b = e.as<ir::Binary>();
      if (!b || !is_float(e.dtype())) return;
      if (b->op != ir::BinaryOp::kAdd && b->op != ir::BinaryOp::kSub) return;
      const auto same = [&](const ir::Expr& other) { return ir::equal(other, e); };
      if (std::none_of(found.begin(), found.end(), same)) found.push_back(e);
    });
  }
  return found.size();
}

TEST(WinogradTransforms, OppositePointsShareTheirSums) {
  const auto dag = [](const char* algo) {
    const std::string spec = "conv2d:N=1,H=8,W=8,CI=4,CO=4,KH=3,KW=3,P=1,algo=";
    return make_dag(parse_op_spec(spec + algo).value()).value();
  };
  // Six rows over six terms: two additions for 0 and for infinity, four for each pair of points.
  EXPECT_EQ(distinct_sums(dag("winograd4"), "V"), 12u);
  EXPECT_EQ(distinct_sums(dag("winograd4"), "Z"), 10u);
  EXPECT_EQ(distinct_sums(dag("winograd2"), "V"), 4u);
  EXPECT_EQ(distinct_sums(dag("winograd2"), "Z"), 4u);
  const Dag one_axis =
      make_dag(parse_op_spec("conv2d:N=1,H=8,W=9,CI=4,CO=4,KH=1,KW=7,algo=winograd4").value())
          .value();
  EXPECT_EQ(distinct_sums(one_axis, "T") + distinct_sums(one_axis, "Z"), 0u);
  // Four additions for 0 and for infinity, eight for each of four pairs of points.
  EXPECT_EQ(distinct_sums(one_axis, "V"), 40u);
}

}  // namespace
}  // namespace tessera::te
