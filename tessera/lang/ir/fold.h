// The value of each scalar operation on constants: the arithmetic of tessera/lang/ir/README.md in
// code.
#pragma once

#include <cstdint>

#include "tessera/lang/ir/expr.h"

namespace tessera::ir {

// Integer and bool operands, wrapped to `t`; the result is wrapped to `t` (0 or 1 for comparisons).
std::int64_t fold_int(BinaryOp op, DType t, std::int64_t a, std::int64_t b);
// Float operands representable in `t`; not for comparisons.
double fold_float(BinaryOp op, DType t, double a, double b);
bool fold_float_compare(BinaryOp op, double a, double b);

// Conversions of Cast.
std::int64_t float_to_int(DType to, double v);  // truncates, saturates, NaN gives 0; bool: v != 0
double int_to_float(DType to, DType from, std::int64_t v);  // rounds to nearest even

// True and the result for the intrinsics with one exact answer: abs, rounding, sqrt, fma, not,
// tests. Transcendental functions are left to the code generator.
bool fold_call(const Call& call, Expr* result);

}  // namespace tessera::ir
