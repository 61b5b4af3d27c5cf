// What the integer forms of matrix products and convolutions share: zero points and requantization.
#pragma once

#include "tessera/frontend/onnx/ops/formula.h"

namespace tessera::onnx {

// True when the value is omitted or known to be zero everywhere.
bool is_zero(const graph::GraphBuilder& b, ValueId zero_point);

// w - zero_point. i8 or u8 where both are constant and the differences fit; i32 otherwise.
Term without_zero_point(Formula& f, Context& c, Term w, Term zero_point);

// Input `i` of a quantized operator as given, or omitted.
ValueId optional_input(const Context& c, std::size_t i);

// round(acc * scale) + zero_point, saturated to the type of the zero point. `acc` is i32, `scale`
// f32; both and zero_point (may be omitted: then `absent` is the type) broadcast.
Term requantize(Formula& f, Term acc, Term scale, ValueId zero_point, DType absent);

// Operands of a matrix product of bytes; zero points may be omitted (kNoValue). That of A holds for
// everything or per row, that of B for everything or per column.
struct IntegerOperands {
  Term a, b;
  ValueId a_zero = kNoValue, b_zero = kNoValue;
};
// (A - a_zero)(B - b_zero) in i32, of the shape that NumPy's matmul gives.
Result<Term> integer_matmul(Formula& f, Context& c, IntegerOperands x);

// As DynamicQuantizeLinear: u8 with a scale and a zero point that follow from the data x, f32.
struct Quantized {
  Term data, scale, zero_point;
};
Quantized dynamic_quantize(Formula& f, Term x);

}  // namespace tessera::onnx
