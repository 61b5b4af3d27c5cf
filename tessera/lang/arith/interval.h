// Constant and symbolic bounds of integer expressions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "tessera/lang/ir/expr.h"

namespace tessera::arith {

// Inclusive; nullopt is unbounded on that side.
struct Interval {
  std::optional<std::int64_t> lo;
  std::optional<std::int64_t> hi;
  static Interval of_extent(std::int64_t extent) { return {0, extent - 1}; }
};

using Ranges = std::map<const ir::ExprNode*, Interval>;  // keyed by Var node

// Constant bounds of e. Saturates to unbounded instead of overflowing.
Interval const_bounds(const ir::Expr& e, const Ranges& ranges);

struct SymbolicInterval {
  ir::Expr min, max;  // inclusive; free of the inner variables, simplified
};

// Bounds of e while each variable in `inner` runs over its range and all others stay symbolic
// (their ranges, where known, are in `outer`). Exact for linear forms; conservative for min, max,
// select, floor_div and floor_mod; nothing when no bound is known (e.g. the value of a Load).
std::optional<SymbolicInterval> symbolic_bounds(const ir::Expr& e, const Ranges& inner,
                                                const Ranges& outer);

// e as sum(coefficient * variable) + constant, or nothing when it is not linear in its variables.
struct LinearForm {
  std::map<const ir::ExprNode*, std::int64_t> coefficients;
  std::int64_t constant = 0;
};
std::optional<LinearForm> linear_form(const ir::Expr& e);

// Coefficient of var when e = coefficient*var + rest with rest free of var (rest may be
// non-linear).
struct SplitForm {
  std::int64_t coefficient = 0;
  ir::Expr rest;
};
std::optional<SplitForm> split_on(const ir::Expr& e, const ir::Expr& var);

}  // namespace tessera::arith
