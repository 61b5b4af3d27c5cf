// What the integer forms of matrix products and convolutions share: zero points and requantization.
#pragma once

#include "tessera/onnx/ops/formula.h"

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

}  // namespace tessera::onnx
