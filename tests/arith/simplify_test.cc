#include "tessera/lang/arith/simplify.h"

#include <limits>

#include <gtest/gtest.h>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/text.h"

namespace tessera::arith {
namespace {

using ir::Expr;
using ir::floor_div;
using ir::floor_mod;
using ir::int_imm;

Expr operator/(const Expr& a, std::int64_t n) { return floor_div(a, int_imm(n)); }
Expr operator%(const Expr& a, std::int64_t n) { return floor_mod(a, int_imm(n)); }

class Simplify : public ::testing::Test {
 protected:
  Expr var(const char* name, std::int64_t extent) {
    const Expr v = ir::Var::make(name);
    ranges_[v.get()] = Interval::of_extent(extent);
    return v;
  }

  // The text of e simplified; checks on the way that a second round keeps the handle.
  std::string text(const Expr& e) const {
    const Expr once = simplify(e, ranges_);
    EXPECT_TRUE(simplify(once, ranges_).same_as(once)) << ir::to_text(once);
    return ir::to_text(once);
  }

  Ranges ranges_;
  const Expr i = var("i", 8);
  const Expr j = var("j", 12);
  const Expr k = var("k", 3);
  const Expr x = ir::Var::make("x");  // unbounded
  const Expr y = ir::Var::make("y");
};

TEST_F(Simplify, CollectsTermsInOrderOfFirstOccurrence) {
  EXPECT_EQ(text((i * 8 + j + 3) - (i * 8 + 1)), "j + 2");
  EXPECT_EQ(text(int_imm(3) + i + j * 2 + i), "i * 2 + j * 2 + 3");
  EXPECT_EQ(text((x + y) * 4 - y * 4 - 7), "x * 4 - 7");
  EXPECT_EQ(text(x - x), "0");
  EXPECT_EQ(text(int_imm(7) - x), "7 - x");
  EXPECT_EQ(text(int_imm(0) - x + y), "y - x");
  EXPECT_EQ(text(int_imm(0) - x - 2), "x * -1 - 2");
  EXPECT_EQ(text(x * y + x * y), "x * y * 2");
}

TEST_F(Simplify, SplitsDivisions) {
  EXPECT_EQ(text((i * 12 + j) / 12), "i");
  EXPECT_EQ(text((i * 12 + j) % 12), "j");
  EXPECT_EQ(text((x * 24 + i * 12 + j) / 12), "x * 2 + i");
  EXPECT_EQ(text((x * 4 + 1) / 2), "x * 2");
  EXPECT_EQ(text((x * 4 + 3) % 2), "1");
  EXPECT_EQ(text((x * 2 + 1) / 4), "x // 2");
  EXPECT_EQ(text((x / 3) / 4), "x // 12");
  EXPECT_EQ(text((x / 3 + 5) / 4), "(x + 3) // 12 + 1");
  EXPECT_EQ(text(j % 12), "j");
  EXPECT_EQ(text(j / 12), "0");
  EXPECT_EQ(text((x * 12 + j) / 36), "x // 3");
  EXPECT_EQ(text((x * 12 + j) % 36), "x %% 3 * 12 + j");
}

TEST_F(Simplify, DivisionsRoundDown) {
  EXPECT_EQ(text((i * 12 + j - 12) / 12), "i - 1");
  EXPECT_EQ(text((x * 12 + j - 3) / 12), "x + (j + 9) // 12 - 1");
  EXPECT_EQ(text((k - 3) / 4), "-1");
  EXPECT_EQ(text((k - 3) % 4), "k + 1");
  EXPECT_EQ(text((int_imm(0) - x * 8 - 1) / 8), "x * -1 - 1");
  EXPECT_EQ(text((x - 1) / 12), "(x + 11) // 12 - 1");
}

TEST_F(Simplify, JoinsQuotientAndRemainder) {
  EXPECT_EQ(text((x / 7) * 7 + x % 7), "x");
  EXPECT_EQ(text(((x + i) / 7) * 14 + ((x + i) % 7) * 2), "x * 2 + i * 2");
  EXPECT_EQ(text((x / 4 % 3) * 4 + x % 4), "x %% 12");
  // The remainder alone is written with coefficients modulo the divisor.
  EXPECT_EQ(text((x * 64 + i) / 7 * 7 + (x * 64 + i) % 7), "x * 64 + i");
  EXPECT_EQ(text((x / 12) * 12 + (x / 4 % 3) * 4 + x % 4), "x");
  EXPECT_EQ(text(x - (x / 4) * 4), "x %% 4");
  EXPECT_EQ(text(x - x % 4), "x // 4 * 4");
  EXPECT_EQ(text(x % 12 % 4), "x %% 4");
  EXPECT_EQ(text((x % 12) / 4), "x // 4 %% 3");
}

TEST_F(Simplify, TruncatingDivisionOfNonNegatives) {
  EXPECT_EQ(text(ir::div(i * 12 + j, int_imm(12))), "i");
  EXPECT_EQ(text(ir::mod(i * 12 + j, int_imm(12))), "j");
  EXPECT_EQ(text(ir::div(x * 12, int_imm(12))), "x * 12 / 12");
}

TEST_F(Simplify, MinAndMaxByRange) {
  EXPECT_EQ(text(ir::min(i, int_imm(7))), "i");
  EXPECT_EQ(text(ir::min(i, int_imm(6))), "min(i, 6)");
  EXPECT_EQ(text(ir::max(x + i, x)), "x + i");
  EXPECT_EQ(text(ir::min(ir::min(x, int_imm(9)), int_imm(4))), "min(x, 4)");
  EXPECT_EQ(text(ir::min(ir::min(x, y), y + 1)), "min(x, y)");
  EXPECT_EQ(text(ir::max(int_imm(0), ir::min(i, int_imm(5)))), "min(i, 5)");
}

TEST_F(Simplify, Comparisons) {
  EXPECT_EQ(text(ir::lt(i * 12 + j, int_imm(96))), "true");
  EXPECT_EQ(text(ir::lt(i * 12 + j, int_imm(95))), "i * 12 + j < 95");
  EXPECT_EQ(text(ir::lt(x * 12 + j, int_imm(96))), "x < 8");
  EXPECT_EQ(text(ir::le(int_imm(0), i + k - 1)), "1 <= i + k");
  EXPECT_EQ(text(ir::le(x, int_imm(7))), "x < 8");
  EXPECT_EQ(text(ir::gt(x, y + 3)), "y < x - 3");
  EXPECT_EQ(text(ir::eq(i, int_imm(8))), "false");
  EXPECT_EQ(text(ir::ne(x * 2, y * 2 + 1)), "true");
  EXPECT_EQ(text(ir::eq(x * 2, y * 2 + 4)), "x == y + 2");
  EXPECT_TRUE(can_prove(ir::ge(i - k, int_imm(-2)), ranges_));
  EXPECT_FALSE(can_prove(ir::ge(i - k, int_imm(-1)), ranges_));
}

TEST_F(Simplify, Logic) {
  const Expr in = ir::lt(x, int_imm(5));
  EXPECT_EQ(text(ir::logical_and(in, ir::lt(i, int_imm(8)))), "x < 5");
  EXPECT_EQ(text(ir::logical_or(in, ir::lt(i, int_imm(8)))), "true");
  EXPECT_EQ(text(ir::logical_and(in, ir::lt(x, int_imm(9)))), "x < 5");
  EXPECT_EQ(text(ir::logical_and(ir::lt(x, int_imm(9)), in)), "x < 5");
  EXPECT_EQ(text(ir::logical_and(in, ir::lt(int_imm(6), x))), "false");
  EXPECT_EQ(text(ir::logical_or(in, ir::le(int_imm(5), x))), "true");
  EXPECT_EQ(text(ir::logical_not(in)), "5 <= x");
  EXPECT_EQ(text(ir::select(in, ir::min(x, int_imm(4)), y)), "select(x < 5, x, y)");
  EXPECT_EQ(text(ir::Select::make(in, y + 0, y)), "y");
  EXPECT_EQ(text(ir::select(in, ir::Select::make(in, x, y), x)), "x");
  const Expr near = ir::lt(ir::cast(DType::kF32, x), ir::imm(DType::kF32, 2));
  EXPECT_EQ(text(ir::select(near, ir::Select::make(near, x, y), y)),
            "select(cast<f32>(x) < 2.0, x, y)");
}

TEST_F(Simplify, FloatsKeepEveryBit) {
  const ir::Buffer a = ir::Buffer::make("A", DType::kF32, {8});
  const Expr f = ir::Load::make(a, {i + 0});
  const auto imm = [](double v) { return ir::imm(DType::kF32, v); };
  EXPECT_EQ(text(ir::mul(f, imm(1))), "A[i]");
  EXPECT_EQ(text(ir::add(f, imm(-0.0))), "A[i]");
  EXPECT_EQ(text(ir::sub(f, imm(0))), "A[i]");
  EXPECT_EQ(text(ir::add(f, imm(0))), "A[i] + 0.0");
  EXPECT_EQ(text(ir::sub(f, f)), "A[i] - A[i]");
  EXPECT_EQ(text(ir::mul(f, imm(0))), "A[i] * 0.0");
  EXPECT_EQ(text(ir::add(ir::add(f, imm(1)), imm(2))), "A[i] + 1.0 + 2.0");
  const Expr tenth = ir::Binary::make(ir::BinaryOp::kAdd, imm(0.1), imm(0.2));
  EXPECT_EQ(ir::as_const_float(simplify(tenth)), static_cast<double>(0.1f + 0.2f));
  EXPECT_EQ(text(ir::logical_not(ir::lt(f, imm(1)))), "not(A[i] < 1.0)");
}

TEST_F(Simplify, NarrowIntegersMayWrap) {
  const Expr b = ir::Var::make("b", DType::kI8);
  const Expr hundred = ir::imm(DType::kI8, 100);
  EXPECT_EQ(text(ir::sub(ir::add(b, hundred), hundred)), "b + 100i8 - 100i8");
  EXPECT_EQ(text(ir::lt(b, ir::add(b, hundred))), "b < b + 100i8");
  EXPECT_EQ(text(ir::mul(b, ir::imm(DType::kI8, 1))), "b");
  EXPECT_EQ(text(ir::lt(ir::cast(DType::kI32, b), ir::imm(DType::kI32, 200))), "true");
  EXPECT_EQ(text(ir::cast(DType::kI64, ir::cast(DType::kI8, i))), "i");
  EXPECT_EQ(text(ir::cast(DType::kI64, ir::cast(DType::kI8, x))), "cast<i64>(cast<i8>(x))");
}

TEST_F(Simplify, Vectors) {
  const auto ramp = [](const Expr& base, std::int64_t stride) {
    return ir::Ramp::make(base, stride, 4);
  };
  const auto all = [](const Expr& e) { return ir::Broadcast::make(e, 4); };
  EXPECT_EQ(text(ramp(x, 1) + all(y)), text(ramp(x + y, 1)));
  EXPECT_EQ(text(ramp(x, 1) * all(int_imm(3)) - all(x)), text(ramp(x * 2, 3)));
  EXPECT_EQ(text(floor_div(ramp(x * 4, 1), all(int_imm(4)))), text(all(x)));
  EXPECT_EQ(text(floor_mod(ramp(x * 4, 1), all(int_imm(4)))), text(ramp(int_imm(0), 1)));
  EXPECT_EQ(text(floor_div(ramp(x, 8), all(int_imm(4)))), text(ramp(x / 4, 2)));
  EXPECT_EQ(text(ir::lt(ramp(i, 1), all(int_imm(11)))), text(all(ir::bool_imm(true))));
  EXPECT_EQ(text(ir::lt(ramp(i, 1), all(int_imm(10)))), text(ir::lt(ramp(i, 1), all(int_imm(10)))));
}

TEST_F(Simplify, KeepsTheHandleWhenNothingChanges) {
  for (const Expr& e : {i * 12 + j, (x + 1) / 4 * 3 + y % 5, ir::lt(i * 8 + j, int_imm(60)),
                        ir::select(ir::lt(x, y), ir::min(x, int_imm(3)), y - 1)}) {
    EXPECT_TRUE(simplify(e, ranges_).same_as(e)) << ir::to_text(e) << " became " << text(e);
  }
}

TEST_F(Simplify, LargeConstantsDoNotOverflow) {
  const std::int64_t big = std::numeric_limits<std::int64_t>::max() - 5;
  const Expr e = (x * big + big) * 4;
  EXPECT_TRUE(simplify(e, ranges_).same_as(e));
  EXPECT_FALSE(const_bounds((i + 1) * big, ranges_).hi.has_value());
  EXPECT_FALSE(can_prove(ir::lt(x * big, y * big + big), ranges_));
}

}  // namespace
}  // namespace tessera::arith
