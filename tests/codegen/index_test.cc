#include "tessera/backend/codegen/llvm/index.h"

#include <gtest/gtest.h>

#include "tessera/backend/codegen/lane.h"
#include "tessera/backend/codegen/llvm/workspace.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::Expr;

TEST(LinearFormTest, CollectsAndCancels) {
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  const Linear sum = linear_form((i * 4 + j - 3) * 2 - i * 8 + 1);
  ASSERT_EQ(sum.terms.size(), 1u);
  EXPECT_TRUE(sum.terms[0].factor.same_as(j));
  EXPECT_EQ(sum.terms[0].coef, 2);
  EXPECT_EQ(sum.constant, -5);
}

TEST(LinearFormTest, EqualOpaqueFactorsMerge) {
  const Expr i = ir::Var::make("i");
  const Linear sum =
      linear_form(ir::floor_div(i, ir::int_imm(3)) + ir::floor_div(i, ir::int_imm(3)) * 5);
  ASSERT_EQ(sum.terms.size(), 1u);
  EXPECT_EQ(sum.terms[0].coef, 6);
}

TEST(PlaceTest, StrideOfTheVectorDimension) {
  const ir::Buffer b = ir::Buffer::make("b", DType::kF32, {4, 5, 6});
  const Expr i = ir::Var::make("i");
  const auto place = place_of(b, {i, ir::Ramp::make(ir::int_imm(1), 2, 3), ir::int_imm(4)});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->stride, 12);
  EXPECT_EQ(place->base.constant, 10);
  ASSERT_EQ(place->base.terms.size(), 1u);
  EXPECT_EQ(place->base.terms[0].coef, 30);
}

TEST(PlaceTest, OnlyProgressionsHaveAStride) {
  const ir::Buffer b = ir::Buffer::make("b", DType::kF32, {64});
  const Expr ramp = ir::Ramp::make(ir::Var::make("i"), 1, 4);
  EXPECT_FALSE(place_of(b, {ir::mul(ramp, ramp)}));
  EXPECT_EQ(place_of(b, {ir::mul(ramp, ir::imm_like(ramp.type(), 3)) - 2})->stride, 3);
}

TEST(NonNegativeTest, IsConservative) {
  const Expr i = ir::Var::make("i");
  EXPECT_TRUE(is_non_negative(i * 4 + 3));
  EXPECT_FALSE(is_non_negative(i - 1));
  EXPECT_FALSE(is_non_negative(ir::cast(DType::kI32, i)));
}

TEST(LaneTest, TakesOneLaneOfEverything) {
  const ir::Buffer b = ir::Buffer::make("b", DType::kF32, {64});
  const Expr i = ir::Var::make("i");
  const auto lane = lane_of(ir::Load::make(b, {ir::Ramp::make(i, 2, 4)}), 3);
  ASSERT_TRUE(lane);
  EXPECT_TRUE(ir::equal(*lane, ir::Load::make(b, {i + 6})));
}

TEST(WorkspaceTest, PartsAndAlignment) {
  const auto heap = [](std::int64_t n) {
    return ir::Buffer::make("h", DType::kI8, {n}, ir::Scope::kHeap);
  };
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  const ir::Buffer inner = heap(65), outer = heap(1), second = heap(100);
  const ir::Stmt store = ir::Store::make(inner, {j}, ir::imm(DType::kI8, 0));
  const ir::Stmt loop = ir::For::make(
      i, 4, ir::LoopKind::kParallel,
      ir::Allocate::make(inner, ir::For::make(j, 65, ir::LoopKind::kParallel, store)));
  const Workspace plan =
      plan_workspace(ir::Allocate::make(outer, ir::Allocate::make(second, loop)));
  EXPECT_EQ(plan.shared_bytes, 64 + 128);
  EXPECT_EQ(plan.worker_bytes, 128);
}

}  // namespace
}  // namespace tessera::codegen
