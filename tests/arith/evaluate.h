// The value of scalar integer expressions at a point: the meaning that simplification must keep.
#pragma once

#include <cstdint>
#include <map>

#include "tessera/lang/arith/interval.h"
#include "tessera/lang/ir/expr.h"
#include "tessera/support/rng.h"

namespace tessera::arith {

using Point = std::map<const ir::ExprNode*, std::int64_t>;

// No loads, floats or vectors. Every variable is in the point.
std::int64_t evaluate(const ir::Expr& e, const Point& point);

// Uniform over ranges that are bounded on both sides.
Point random_point(const Ranges& ranges, Rng* rng);

}  // namespace tessera::arith
