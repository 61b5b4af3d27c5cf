#include "tessera/frontend/graph/ops/power.h"

#include <cmath>

namespace tessera::graph {
namespace {

using ir::Expr;

Expr one(const Expr& x) { return ir::int_like(x.type(), 1); }
// Adding zero turns -0 into 0, whose powers are positive.
Expr root(const Expr& x) { return ir::call(ir::Intrinsic::kSqrt, {x + ir::zero(x.type())}); }

Expr repeated(const Expr& x, int times) {
  if (times == 0) return one(x);
  if (times == 1) return x;
  const Expr half = repeated(x, times / 2);
  return times % 2 == 0 ? half * half : half * half * x;
}

}  // namespace

bool is_small_integer(double exponent) {
  return exponent >= 0 && exponent <= 4 && exponent == std::floor(exponent);
}

Expr power(const Expr& x, double exponent) {
  if (is_small_integer(exponent)) return repeated(x, static_cast<int>(exponent));
  if (exponent == 0.5) return root(x);
  if (exponent == 0.75) return root(x) * root(root(x));
  if (exponent == -1 || exponent == -2 || exponent == -0.5 || exponent == -0.75) {
    return ir::div(one(x), power(x, -exponent));
  }
  return ir::call(ir::Intrinsic::kPow, {x, ir::imm(x.dtype(), exponent)});
}

}  // namespace tessera::graph
