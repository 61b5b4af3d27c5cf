// Quantised models in QDQ form with their products taken of the bytes themselves.
#pragma once

#include "tessera/frontend/onnx/model.h"

namespace tessera::onnx {

// Conv, Gemm and MatMul whose operands come from DequantizeLinear, the right one a constant, become
// ConvInteger and MatMulInteger, whose sums are scaled afterwards: the same value but for rounding,
// as sums of bytes are exact. A scale holds for the whole left operand and for the whole right one
// or a channel of it. What is not of this form stays as it is, and so does what does not sum a
// multiple of `depth` elements of every position; windows of several groups sum few.
Model with_integer_products(Model model, std::int64_t depth = 1);

}  // namespace tessera::onnx
