// Quantised models in QDQ form with their products taken of the bytes themselves.
#pragma once

#include <functional>
#include <string>

#include "tessera/frontend/onnx/model.h"
#include "tessera/support/result.h"

namespace tessera::onnx {

// The domain of operators that no file has. "Either" is one of two values that are the same but for
// rounding: "key" names the point that decides, "bytes_first" says what is preferred, and "only"
// (1: bytes, 2: floats) that the other one is not there.
inline constexpr const char* kOwnDomain = "tessera";

struct IntegerProducts {
  // Bytes are preferred where a multiple of so many elements of every position is summed; windows
  // of several groups sum few.
  std::int64_t depth = 1;
  // 8-bit floats are multiplied as bytes are, where a plan says so: nobody has timed that yet.
  bool short_floats = false;
  // Whether to multiply bytes, by the key and what is preferred. Empty: both are offered.
  std::function<Result<bool>(const std::string& key, bool bytes)> decide = {};
};

// Conv, Gemm and MatMul whose operands come from DequantizeLinear, the right one a constant, stay
// as they are or become ConvInteger and MatMulInteger, whose sums are scaled afterwards. Sums of
// bytes are exact, so both are the same but for rounding. Products of 8-bit floats become Conv and
// MatMul of them, whose sums are f32. A scale holds for the whole left operand
// and for the whole right one or a channel of it. What is not of this form stays as it is, as do
// products whose sums 32 bits might not hold.
Result<Model> with_integer_products(Model model, const IntegerProducts& how = {});

}  // namespace tessera::onnx
