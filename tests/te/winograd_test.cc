#include "tessera/te/ops/winograd.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/ir/visitor.h"
#include "tessera/te/op_spec.h"
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
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kF32, {1, 1, 5, 5}), 2).ok());
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kF32, {1, 3, 3}), 2).ok());
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kI8, {1, 1, 3, 3}), 2).ok());
  EXPECT_FALSE(winograd_weights(HostTensor(DType::kF32, {1, 1, 3, 3}), 3).ok());
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
}

}  // namespace
}  // namespace tessera::te
