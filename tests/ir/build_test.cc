#include "tessera/lang/ir/build.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/lang/ir/text.h"

namespace tessera::ir {
namespace {

constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();

Expr i(std::int64_t v, DType t = DType::kI64) { return IntImm::make(t, v); }
Expr f(double v, DType t = DType::kF32) { return FloatImm::make(t, v); }

struct Case {
  Expr (*op)(Expr, Expr);
  Expr a, b, want;
};

TEST(Fold, BinaryTable) {
  const double nan = NAN;
  const std::vector<Case> table = {
      {add, i(2), i(3), i(5)},
      {add, i(kMax64), i(1), i(kMin64)},
      {add, i(127, DType::kI8), i(1, DType::kI8), i(-128, DType::kI8)},
      {sub, i(0, DType::kU8), i(1, DType::kU8), i(255, DType::kU8)},
      {mul, i(1 << 20, DType::kI32), i(1 << 12, DType::kI32), i(0, DType::kI32)},
      {div, i(-7), i(2), i(-3)},
      {mod, i(-7), i(2), i(-1)},
      {floor_div, i(-7), i(2), i(-4)},
      {floor_mod, i(-7), i(2), i(1)},
      {floor_div, i(7), i(-2), i(-4)},
      {floor_mod, i(7), i(-2), i(-1)},
      {div, i(7), i(0), i(0)},
      {mod, i(7), i(0), i(0)},
      {floor_div, i(7), i(0), i(0)},
      {floor_mod, i(-7), i(0), i(0)},
      {div, i(kMin64), i(-1), i(kMin64)},
      {mod, i(kMin64), i(-1), i(0)},
      {floor_div, i(-128, DType::kI8), i(-1, DType::kI8), i(-128, DType::kI8)},
      {div, i(-1, DType::kU64), i(2, DType::kU64), i(kMax64, DType::kU64)},
      {floor_div, i(-1, DType::kU64), i(2, DType::kU64), i(kMax64, DType::kU64)},
      {min, i(-1, DType::kU64), i(2, DType::kU64), i(2, DType::kU64)},
      {max, i(-1), i(2), i(2)},
      {lt, i(-1), i(2), bool_imm(true)},
      {lt, i(-1, DType::kU64), i(2, DType::kU64), bool_imm(false)},
      {le, i(2), i(2), bool_imm(true)},
      {gt, i(3), i(2), bool_imm(true)},
      {ge, i(2), i(3), bool_imm(false)},
      {eq, i(2), i(2), bool_imm(true)},
      {ne, i(2), i(2), bool_imm(false)},
      {logical_and, bool_imm(true), bool_imm(false), bool_imm(false)},
      {logical_or, bool_imm(true), bool_imm(false), bool_imm(true)},
      {add, f(0.1), f(0.2), f(0.1f + 0.2f)},
      {add, f(0.1, DType::kF64), f(0.2, DType::kF64), f(0.1 + 0.2, DType::kF64)},
      {add, f(2048, DType::kF16), f(1, DType::kF16), f(2048, DType::kF16)},
      {mul, f(65504, DType::kF16), f(2, DType::kF16), f(INFINITY, DType::kF16)},
      {add, f(256, DType::kBF16), f(1, DType::kBF16), f(256, DType::kBF16)},
      {div, f(1), f(0), f(INFINITY)},
      {div, f(0), f(0), f(nan)},
      {mod, f(-7.5), f(2), f(-1.5)},
      {min, f(nan), f(1), f(nan)},
      {min, f(1), f(nan), f(nan)},
      {max, f(nan), f(1), f(nan)},
      {max, f(1), f(nan), f(nan)},
      {min, f(1), f(2), f(1)},
      {max, f(1), f(2), f(2)},
      {lt, f(nan), f(1), bool_imm(false)},
      {eq, f(nan), f(nan), bool_imm(false)},
      {ne, f(nan), f(nan), bool_imm(true)},
      {eq, f(0.0), f(-0.0), bool_imm(true)},
  };
  for (const Case& c : table) {
    const Expr got = c.op(c.a, c.b);
    EXPECT_TRUE(equal(got, c.want)) << to_text(c.a) << ", " << to_text(c.b) << " gave "
                                    << to_text(got) << ", want " << to_text(c.want);
  }
}

TEST(Fold, BinaryOperationsWithoutABuilder) {
  const auto fold = [](BinaryOp op, Expr a,
                       Expr b) {  // through substitute, the only folding path for them
    const Expr x = Var::make("x", a.dtype());
    return substitute(Binary::make(op, x, b), x, a);
  };
  EXPECT_TRUE(equal(fold(BinaryOp::kShl, i(1, DType::kI8), i(7, DType::kI8)), i(-128, DType::kI8)));
  EXPECT_TRUE(equal(fold(BinaryOp::kShl, i(1), i(65)), i(2)));
  EXPECT_TRUE(equal(fold(BinaryOp::kShr, i(-8), i(1)), i(-4)));
  EXPECT_TRUE(
      equal(fold(BinaryOp::kShr, i(-1, DType::kU64), i(63, DType::kU64)), i(1, DType::kU64)));
  EXPECT_TRUE(equal(fold(BinaryOp::kXor, i(6, DType::kU8), i(3, DType::kU8)), i(5, DType::kU8)));
}

TEST(Fold, CastTable) {
  struct Row {
    DType to;
    Expr from, want;
  };
  const std::vector<Row> table = {
      {DType::kI8, i(300), i(44, DType::kI8)},
      {DType::kU8, i(-1), i(255, DType::kU8)},
      {DType::kBool, i(2), bool_imm(true)},
      {DType::kBool, f(NAN), bool_imm(true)},
      {DType::kBool, f(0.25), bool_imm(true)},
      {DType::kBool, f(-0.0), bool_imm(false)},
      {DType::kI32, f(-2.9), i(-2, DType::kI32)},
      {DType::kI8, f(1000), i(127, DType::kI8)},
      {DType::kI8, f(-1000), i(-128, DType::kI8)},
      {DType::kU8, f(-3), i(0, DType::kU8)},
      {DType::kU8, f(256), i(255, DType::kU8)},
      {DType::kI64, f(1e30), i(kMax64)},
      {DType::kI64, f(-INFINITY), i(kMin64)},
      {DType::kU64, f(INFINITY), i(-1, DType::kU64)},
      {DType::kU64, f(0x1p63), i(kMin64, DType::kU64)},
      {DType::kI32, f(NAN), i(0, DType::kI32)},
      {DType::kF32, i((1 << 24) + 1), f(1 << 24)},
      {DType::kF64, i(-1, DType::kU64), f(0x1p64, DType::kF64)},
      {DType::kF16, f(65520), f(INFINITY, DType::kF16)},
      {DType::kF16, f(0.1), f(round_float(DType::kF16, 0.1), DType::kF16)},
      {DType::kF32, f(0.1, DType::kF16), f(round_float(DType::kF16, 0.1))},
  };
  for (const Row& row : table) {
    const Expr got = cast(row.to, row.from);
    EXPECT_TRUE(equal(got, row.want))
        << to_text(row.from) << " to " << tessera::to_text(row.to) << " gave " << to_text(got);
  }
}

TEST(Fold, CallTable) {
  const auto fold = [](Intrinsic fn, Expr a) { return call(fn, {a}); };
  EXPECT_TRUE(equal(fold(Intrinsic::kAbs, i(-128, DType::kI8)), i(-128, DType::kI8)));
  EXPECT_TRUE(equal(fold(Intrinsic::kAbs, i(-5)), i(5)));
  EXPECT_TRUE(equal(fold(Intrinsic::kAbs, f(-0.5)), f(0.5)));
  EXPECT_TRUE(equal(fold(Intrinsic::kNot, i(5, DType::kU8)), i(250, DType::kU8)));
  EXPECT_TRUE(equal(logical_not(bool_imm(true)), bool_imm(false)));
  EXPECT_TRUE(equal(fold(Intrinsic::kFloor, f(-1.5)), f(-2)));
  EXPECT_TRUE(equal(fold(Intrinsic::kCeil, f(-1.5)), f(-1)));
  EXPECT_TRUE(equal(fold(Intrinsic::kTrunc, f(-1.5)), f(-1)));
  EXPECT_TRUE(equal(fold(Intrinsic::kRound, f(2.5)), f(2)));
  EXPECT_TRUE(equal(fold(Intrinsic::kRound, f(3.5)), f(4)));
  EXPECT_TRUE(equal(fold(Intrinsic::kRound, f(-0.25)), f(-0.0)));
  EXPECT_TRUE(equal(fold(Intrinsic::kRound, f(INFINITY)), f(INFINITY)));
  EXPECT_TRUE(equal(fold(Intrinsic::kSqrt, f(2)), f(std::sqrt(2.0f))));
  EXPECT_TRUE(equal(fold(Intrinsic::kIsNan, f(NAN)), bool_imm(true)));
  EXPECT_TRUE(equal(fold(Intrinsic::kIsInf, f(-INFINITY)), bool_imm(true)));
  EXPECT_TRUE(
      equal(call(Intrinsic::kFma, {f(0.1), f(10), f(-1)}), f(std::fma(0.1f, 10.0f, -1.0f))));
  EXPECT_EQ(fold(Intrinsic::kExp, f(0)).kind(), ExprKind::kCall);
}

TEST(Fold, VectorsOfConstants) {
  const Expr two = imm_like({DType::kI32, 4}, 2);
  const Expr sum = add(two, two);
  EXPECT_EQ(sum.type(), (Type{DType::kI32, 4}));
  EXPECT_TRUE(is_const_int(sum, 4));
  EXPECT_EQ(lt(two, sum).type(), (Type{DType::kBool, 4}));
}

TEST(Fold, NeverReordersOrDropsVariables) {
  const Expr x = Var::make("x");
  EXPECT_EQ(to_text(add(add(i(1), x), i(2))), "1 + x + 2");
  EXPECT_EQ(to_text(mul(x, i(0))), "x * 0");
}

TEST(Fold, SelectTakesTheKnownSide) {
  const Expr x = Var::make("x"), y = Var::make("y");
  EXPECT_TRUE(select(bool_imm(true), x, y).same_as(x));
  EXPECT_TRUE(select(bool_imm(false), x, y).same_as(y));
  EXPECT_EQ(select(lt(x, y), x, y).kind(), ExprKind::kSelect);
}

TEST(Build, IntegerOperatorsTakeTheTypeOfTheExpression) {
  const Expr x = Var::make("x", DType::kF32);
  EXPECT_EQ(to_text(x * 2 + 1), "x * 2.0 + 1.0");
  EXPECT_TRUE(is_const_int(i(0) + (kMax64 - 1), kMax64 - 1));  // exact above 2^53
}

TEST(Build, ConstantQueries) {
  EXPECT_EQ(as_const_int(int_imm(5)), 5);
  EXPECT_EQ(as_const_int(Broadcast::make(int_imm(5), 4)), 5);
  EXPECT_EQ(as_const_int(Var::make("x")), std::nullopt);
  EXPECT_EQ(as_const_int(Expr()), std::nullopt);
  EXPECT_EQ(as_const_float(imm(DType::kF32, 0.5)), 0.5);
  EXPECT_EQ(as_const_float(int_imm(1)), std::nullopt);
  EXPECT_TRUE(equal(imm(DType::kU8, 300), i(255, DType::kU8)));
}

}  // namespace
}  // namespace tessera::ir
