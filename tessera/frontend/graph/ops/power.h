// Powers with a known exponent, by the cheapest exact-enough operations.
#pragma once

#include "tessera/lang/ir/build.h"

namespace tessera::graph {

// x to the power `exponent`; x is f32, f64 or an integer (then exponent is an integer >= 0).
// Small integers multiply, halves and quarters take square roots, others call the intrinsic.
ir::Expr power(const ir::Expr& x, double exponent);
// True for exponents that `power` can take for an integer x.
bool is_small_integer(double exponent);

}  // namespace tessera::graph
