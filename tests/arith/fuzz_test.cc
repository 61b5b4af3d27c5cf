// Random expressions over bounded variables: simplification and bounds must agree with evaluation.
#include <gtest/gtest.h>

#include "evaluate.h"
#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::arith {
namespace {

using ir::BinaryOp;
using ir::Expr;

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : rng_(seed) {
    for (const char* name : {"a", "b", "c", "d"}) {
      const Expr v = ir::Var::make(name);
      const std::int64_t lo = rng_.chance(0.7) ? 0 : rng_.between(-9, 9);
      vars.push_back(v);
      ranges[v.get()] = {lo, lo + rng_.below(rng_.chance(0.8) ? 12 : 2)};
    }
  }

  Expr integer(int depth) {
    if (depth == 0 || rng_.chance(0.1)) {
      return rng_.chance(0.75) ? vars[static_cast<std::size_t>(rng_.below(4))]
                               : ir::int_imm(rng_.between(-20, 20));
    }
    switch (rng_.below(12)) {
      case 0:
      case 1:
      case 2:
        return binary(BinaryOp::kAdd, depth);
      case 3:
        return binary(BinaryOp::kSub, depth);
      case 4:
      case 5:
        return ir::Binary::make(BinaryOp::kMul, integer(depth - 1), ir::int_imm(factor()));
      case 6:
      case 7:
        return ir::Binary::make(BinaryOp::kFloorDiv, integer(depth - 1), ir::int_imm(divisor()));
      case 8:
        return ir::Binary::make(BinaryOp::kFloorMod, integer(depth - 1), ir::int_imm(divisor()));
      case 9:
        return binary(rng_.chance(0.5) ? BinaryOp::kMin : BinaryOp::kMax, depth);
      case 10:
        return ir::Select::make(boolean(depth - 1), integer(depth - 1), integer(depth - 1));
      default:
        return split(depth);
    }
  }

  Expr boolean(int depth) {
    static constexpr BinaryOp kCompare[] = {BinaryOp::kLt, BinaryOp::kLe, BinaryOp::kEq,
                                            BinaryOp::kNe};
    if (depth <= 1 || rng_.chance(0.5)) {
      const BinaryOp op = kCompare[rng_.below(4)];
      return ir::Binary::make(op, integer(depth), integer(rng_.chance(0.5) ? 0 : depth));
    }
    if (rng_.chance(0.2)) return ir::Call::make(ir::Intrinsic::kNot, {boolean(depth - 1)});
    return ir::Binary::make(rng_.chance(0.5) ? BinaryOp::kAnd : BinaryOp::kOr, boolean(depth - 1),
                            boolean(depth - 1));
  }

  Point point() { return random_point(ranges, &rng_); }
  Rng& rng() { return rng_; }

  std::vector<Expr> vars;
  Ranges ranges;

 private:
  Expr binary(BinaryOp op, int depth) {
    return ir::Binary::make(op, integer(depth - 1), integer(depth - 1));
  }
  std::int64_t factor() { return rng_.chance(0.8) ? rng_.between(1, 12) : rng_.between(-8, -1); }
  std::int64_t divisor() { return rng_.chance(0.9) ? rng_.between(1, 12) : rng_.between(-3, -1); }
  // (x // n) * m + x % n: what splitting and fusing loops produces.
  Expr split(int depth) {
    const Expr x = integer(depth - 1);
    const Expr n = ir::int_imm(rng_.between(1, 6));
    const Expr m = rng_.chance(0.7) ? n : ir::int_imm(factor());
    return ir::Binary::make(
        BinaryOp::kAdd,
        ir::Binary::make(BinaryOp::kMul, ir::Binary::make(BinaryOp::kFloorDiv, x, n), m),
        ir::Binary::make(BinaryOp::kFloorMod, x, n));
  }

  Rng rng_;
};

constexpr int kCases = 20000;
constexpr int kPoints = 12;

TEST(ArithFuzz, SimplifyKeepsTheValue) {
  for (int n = 0; n < kCases; ++n) {
    Generator g(static_cast<std::uint64_t>(n));
    const int depth = 2 + n % 4;
    const Expr e = n % 3 == 0 ? g.boolean(depth) : g.integer(depth);
    const Expr simple = simplify(e, g.ranges);
    for (int p = 0; p < kPoints; ++p) {
      const Point at = g.point();
      ASSERT_EQ(evaluate(e, at), evaluate(simple, at)) << "seed " << n << "\n"
                                                       << ir::to_text(e) << "\n"
                                                       << ir::to_text(simple);
    }
  }
}

TEST(ArithFuzz, SimplifyIsIdempotentAndKeepsHandles) {
  for (int n = 0; n < kCases; ++n) {
    Generator g(static_cast<std::uint64_t>(n));
    const int depth = 2 + n % 4;
    const Expr simple = simplify(n % 3 == 0 ? g.boolean(depth) : g.integer(depth), g.ranges);
    const Expr again = simplify(simple, g.ranges);
    ASSERT_TRUE(again.same_as(simple)) << "seed " << n << "\n"
                                       << ir::to_text(simple) << "\n"
                                       << ir::to_text(again);
  }
}

TEST(ArithFuzz, ConstantBoundsHoldEveryValue) {
  for (int n = 0; n < kCases; ++n) {
    Generator g(static_cast<std::uint64_t>(n));
    const Expr e = g.integer(2 + n % 4);
    const Interval b = const_bounds(e, g.ranges);
    for (int p = 0; p < kPoints; ++p) {
      const std::int64_t value = evaluate(e, g.point());
      ASSERT_TRUE((!b.lo || *b.lo <= value) && (!b.hi || value <= *b.hi))
          << "seed " << n << "\n"
          << ir::to_text(e) << " = " << value;
    }
  }
}

TEST(ArithFuzz, SymbolicBoundsHoldEveryValue) {
  int bounded = 0;
  for (int n = 0; n < kCases; ++n) {
    Generator g(static_cast<std::uint64_t>(n));
    const Expr e = g.integer(2 + n % 3);
    Ranges inner;
    Ranges outer;
    for (std::size_t v = 0; v < g.vars.size(); ++v)
      (v < 2 ? inner : outer)[g.vars[v].get()] = g.ranges[g.vars[v].get()];
    const auto b = symbolic_bounds(e, inner, outer);
    if (!b) continue;
    ++bounded;
    for (const Expr& v : {g.vars[0], g.vars[1]})
      ASSERT_FALSE(ir::uses_var(b->min, v) || ir::uses_var(b->max, v));
    for (int p = 0; p < kPoints; ++p) {
      const Point at = g.point();
      const std::int64_t value = evaluate(e, at);
      ASSERT_TRUE(evaluate(b->min, at) <= value && value <= evaluate(b->max, at))
          << "seed " << n << "\n"
          << ir::to_text(e) << " = " << value << " not in " << ir::to_text(b->min) << " .. "
          << ir::to_text(b->max);
    }
  }
  EXPECT_GT(bounded, kCases / 2);
}

}  // namespace
}  // namespace tessera::arith
