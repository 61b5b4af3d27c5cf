// Arithmetic on single values: the semantics of ir operations, type by type.
#pragma once

#include <cstdint>

#include "tessera/lang/ir/expr.h"

namespace tessera::interp {

// A value of some DType known from context: `f` for floats, already rounded to the type; `i` for
// integers and bool, already wrapped (u64 as its bits).
union Scalar {
  std::int64_t i;
  double f;
};

inline Scalar of_int(std::int64_t v) { return Scalar{.i = v}; }
inline Scalar of_float(double v) { return Scalar{.f = v}; }

// a op b for operands of type t; comparisons give bool. Integers wrap; division and modulo by zero
// give 0; a shift amount counts modulo the width; f16, bf16 and f32 compute in f32 and round to t.
Scalar binary(ir::BinaryOp op, DType t, Scalar a, Scalar b);
// float -> int truncates, saturates, NaN gives 0. int -> f16 and bf16 rounds to f32 first.
Scalar convert(DType from, DType to, Scalar v);
// The functions of one argument: transcendental ones in double, rounded once to t.
Scalar unary(ir::Intrinsic fn, DType t, Scalar v);
Scalar power(DType t, Scalar a, Scalar b);
Scalar fused_multiply_add(DType t, Scalar a, Scalar b, Scalar c);
// The same bits as another type of the same size.
Scalar bitcast(DType from, DType to, Scalar v);

}  // namespace tessera::interp
