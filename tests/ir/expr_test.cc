#include "tessera/lang/ir/expr.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/stmt.h"
#include "tessera/lang/ir/typing.h"

namespace tessera::ir {
namespace {

Expr vec(DType t, int lanes) { return imm_like({t, lanes}, 1); }

TEST(Make, RefusesIllTypedNodes) {
  const Expr x = Var::make("x");
  const Expr f = imm(DType::kF32, 1);
  const Buffer a = Buffer::make("a", DType::kF32, {4, 4});
  EXPECT_THROW(Binary::make(BinaryOp::kAdd, x, f), InternalError);
  EXPECT_THROW(Binary::make(BinaryOp::kAdd, x, vec(DType::kI64, 4)), InternalError);
  EXPECT_THROW(Binary::make(BinaryOp::kFloorDiv, f, f), InternalError);
  EXPECT_THROW(Binary::make(BinaryOp::kAnd, f, f), InternalError);
  EXPECT_THROW(Binary::make(BinaryOp::kAdd, bool_imm(true), bool_imm(true)), InternalError);
  EXPECT_THROW(Select::make(x, f, f), InternalError);
  EXPECT_THROW(
      Select::make(imm_like({DType::kBool, 2}, 1), vec(DType::kF32, 4), vec(DType::kF32, 4)),
      InternalError);
  EXPECT_THROW(Load::make(a, {x}), InternalError);
  EXPECT_THROW(Load::make(a, {x, f}), InternalError);
  EXPECT_THROW(Store::make(a, {x, x}, x), InternalError);
  EXPECT_THROW(Store::make(a, {x, x}, vec(DType::kF32, 4)), InternalError);
  EXPECT_THROW(Broadcast::make(vec(DType::kF32, 4), 6), InternalError);
  EXPECT_THROW(Shuffle::make(vec(DType::kF32, 4), {4}), InternalError);
  EXPECT_THROW(For::make(f, 4, LoopKind::kSerial, Block::make({})), InternalError);
  EXPECT_THROW(If::make(x, Block::make({})), InternalError);
  EXPECT_THROW(Allocate::make(a, Block::make({})), InternalError);
}

TEST(Make, TypesFollowFromOperands) {
  const Expr v = vec(DType::kF32, 4);
  const Expr x = Var::make("x");
  const Buffer a = Buffer::make("a", DType::kF16, {8});
  EXPECT_EQ(lt(v, v).type(), (Type{DType::kBool, 4}));
  EXPECT_EQ(Select::make(bool_imm(true), v, v).type(), v.type());
  EXPECT_EQ(Select::make(lt(v, v), v, v).type(), v.type());
  EXPECT_EQ(Cast::make(DType::kI8, v).type(), (Type{DType::kI8, 4}));
  EXPECT_EQ(Load::make(a, {Ramp::make(x, 1, 4)}).type(), (Type{DType::kF16, 4}));
  EXPECT_EQ(Shuffle::make(v, {3}).type(), (Type{DType::kF32, 1}));
  EXPECT_EQ(Broadcast::make(v, 8).type(), (Type{DType::kF32, 8}));
  EXPECT_TRUE(Broadcast::make(v, 4).same_as(v));
  EXPECT_TRUE(Ramp::make(x, 3, 1).same_as(x));
  EXPECT_EQ(to_text(Type{DType::kF32, 4}), "f32x4");
  EXPECT_EQ(to_text(Type{DType::kF32, 1}), "f32");
}

TEST(Make, ConstantsAreWrappedAndRounded) {
  EXPECT_EQ(IntImm::make(DType::kU8, 257).as<IntImm>()->value, 1);
  EXPECT_EQ(IntImm::make(DType::kBool, 7).as<IntImm>()->value, 1);
  EXPECT_EQ(FloatImm::make(DType::kF32, 0.1).as<FloatImm>()->value, static_cast<double>(0.1f));
}

TEST(Make, DotAndMatrixIntrinsics) {
  const Expr acc = vec(DType::kI32, 4);
  const Expr a = vec(DType::kI8, 16), b = vec(DType::kU8, 16);
  EXPECT_EQ(Call::make(Intrinsic::kDot4, {acc, a, b}).type(), acc.type());
  EXPECT_EQ(Call::make(Intrinsic::kMma2x8, {acc, a, a}).type(), acc.type());
  EXPECT_THROW(Call::make(Intrinsic::kDot4, {acc, a, vec(DType::kU8, 8)}), InternalError);
  EXPECT_THROW(
      Call::make(Intrinsic::kMma2x8, {vec(DType::kI32, 2), vec(DType::kI8, 8), vec(DType::kI8, 8)}),
      InternalError);
  const Expr facc = vec(DType::kF32, 4), half = vec(DType::kBF16, 8);
  EXPECT_EQ(Call::make(Intrinsic::kDot2, {facc, half, half}).type(), facc.type());
  EXPECT_EQ(Call::make(Intrinsic::kMma2x4, {facc, half, half}).type(), facc.type());
  EXPECT_THROW(Call::make(Intrinsic::kDot2, {facc, vec(DType::kF16, 8), half}), InternalError);
}

TEST(Make, BitcastKeepsTheSize) {
  EXPECT_EQ(Call::make_bitcast(DType::kF32, vec(DType::kI32, 4)).type(), (Type{DType::kF32, 4}));
  EXPECT_THROW(Call::make_bitcast(DType::kF32, int_imm(1)), InternalError);
  EXPECT_THROW(Call::make(Intrinsic::kBitcast, {int_imm(1)}), InternalError);
}

TEST(Make, EveryIntrinsicHasItsOwnName) {
  std::vector<std::string> names;
  for (int fn = 0; fn < intrinsic_count(); ++fn)
    names.emplace_back(to_text(static_cast<Intrinsic>(fn)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_EQ(intrinsic_count(), static_cast<int>(Intrinsic::kProductsWait) + 1);
}

TEST(Block, FlattensAndDropsEmpties) {
  const Buffer a = Buffer::make("a", DType::kI64, {});
  const Stmt s = Store::make(a, {}, int_imm(1)), t = Store::make(a, {}, int_imm(2));
  EXPECT_TRUE(Block::make({Block::make({}), s, Stmt()}).same_as(s));
  const Stmt nested = Block::make({Block::make({s, t}), s});
  ASSERT_TRUE(nested.as<Block>());
  EXPECT_EQ(nested.as<Block>()->stmts.size(), 3u);
  EXPECT_TRUE(Block::make({}).as<Block>()->stmts.empty());
}

}  // namespace
}  // namespace tessera::ir
