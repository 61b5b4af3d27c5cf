#include <gtest/gtest.h>

#include "tessera/lang/arith/interval.h"
#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/text.h"

namespace tessera::arith {
namespace {

using ir::Expr;
using ir::int_imm;

Expr operator/(const Expr& a, std::int64_t n) { return ir::floor_div(a, int_imm(n)); }
Expr operator%(const Expr& a, std::int64_t n) { return ir::floor_mod(a, int_imm(n)); }

class Bounds : public ::testing::Test {
 protected:
  static Expr var(const char* name, std::int64_t extent, Ranges* ranges) {
    const Expr v = ir::Var::make(name);
    (*ranges)[v.get()] = Interval::of_extent(extent);
    return v;
  }

  // "min .. max"
  std::string symbolic(const Expr& e) const {
    const auto b = symbolic_bounds(e, inner_, outer_);
    return b ? ir::to_text(b->min) + " .. " + ir::to_text(b->max) : "none";
  }

  std::string constant(const Expr& e) const {
    const Interval b = const_bounds(e, inner_);
    return (b.lo ? std::to_string(*b.lo) : "-inf") + " .. " +
           (b.hi ? std::to_string(*b.hi) : "inf");
  }

  Ranges inner_;
  Ranges outer_;
  const Expr o = var("o", 7, &outer_);
  const Expr i = var("i", 8, &inner_);
  const Expr kh = var("kh", 3, &inner_);
  const Expr x = ir::Var::make("x");
};

TEST_F(Bounds, Constant) {
  EXPECT_EQ(constant(i * 3 - kh + 1), "-1 .. 22");
  EXPECT_EQ(constant(i - i + kh), "0 .. 2");
  EXPECT_EQ(constant((i + 5) / 4), "1 .. 3");
  EXPECT_EQ(constant((i + 8) % 16), "8 .. 15");
  EXPECT_EQ(constant((i + 9) % 16), "0 .. 15");
  EXPECT_EQ(constant(ir::min(i, x)), "-inf .. 7");
  EXPECT_EQ(constant(ir::min(x + i, x) - x), "0 .. 0");
  EXPECT_EQ(constant(ir::select(ir::lt(x, i), kh, i + 4)), "0 .. 11");
  EXPECT_EQ(constant(i * kh), "0 .. 14");
  EXPECT_EQ(constant(ir::cast(DType::kI64, ir::Var::make("b", DType::kI8))), "-128 .. 127");
  EXPECT_EQ(constant(ir::add(ir::cast(DType::kI8, i), ir::imm(DType::kI8, 125))), "-128 .. 127");
}

TEST_F(Bounds, SymbolicLinear) {
  EXPECT_EQ(symbolic(o * 8 + i + kh - 1), "o * 8 - 1 .. o * 8 + 8");
  EXPECT_EQ(symbolic(x - i * 2), "x - 14 .. x");
  EXPECT_EQ(symbolic(o + x), "o + x .. o + x");
}

TEST_F(Bounds, SymbolicDivisions) {
  EXPECT_EQ(symbolic(((o * 16 + i) / 8) * 2 + kh), "o * 4 .. o * 4 + 2");
  EXPECT_EQ(symbolic((o * 14 + i) / 7), "o * 2 .. o * 2 + 1");
  EXPECT_EQ(symbolic((o * 16 + i) % 16), "0 .. 7");
  EXPECT_EQ(symbolic((o * 12 + i) % 7), "0 .. 6");
  // The start is not aligned: one quotient more than any single value of x needs.
  EXPECT_EQ(symbolic((x + i) / 4), "x // 4 .. x // 4 + 2");
  EXPECT_EQ(symbolic((x * 2 + kh) / 4), "x // 2 .. x // 2 + 1");
  EXPECT_EQ(symbolic((x * 8 + i) % 32), "x %% 4 * 8 .. x %% 4 * 8 + 7");
}

TEST_F(Bounds, SymbolicChoices) {
  EXPECT_EQ(symbolic(ir::max(ir::min(o * 8 + i - 1, int_imm(50)), int_imm(0))),
            "max(o * 8 - 1, 0) .. min(o * 8 + 6, 50)");
  EXPECT_EQ(symbolic(ir::select(ir::lt(i, int_imm(3)), x + i, x + 9)), "x .. x + 9");
  const ir::Buffer table = ir::Buffer::make("T", DType::kI64, {8});
  EXPECT_EQ(symbolic(ir::Load::make(table, {i}) + 1), "none");
  EXPECT_EQ(symbolic(ir::Load::make(table, {o}) + i), "T[o] .. T[o] + 7");
}

TEST_F(Bounds, LinearForm) {
  const auto form = linear_form((o * 8 + i) * 2 - o * 16 + 5);
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->constant, 5);
  EXPECT_EQ(form->coefficients, (std::map<const ir::ExprNode*, std::int64_t>{{i.get(), 2}}));
  EXPECT_FALSE(linear_form(o / 2 + i).has_value());
}

TEST_F(Bounds, SplitOn) {
  const auto split = split_on((o / 2 + i * 3) * 4 + 1, i);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->coefficient, 12);
  EXPECT_EQ(ir::to_text(split->rest), "o // 2 * 4 + 1");
  EXPECT_FALSE(split_on(i + i / 2, i).has_value());
  EXPECT_EQ(split_on(o + 1, i)->coefficient, 0);
}

}  // namespace
}  // namespace tessera::arith
