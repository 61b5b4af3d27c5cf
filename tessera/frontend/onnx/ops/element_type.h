// Element types as attributes of ONNX operators name them.
#pragma once

#include <string_view>

#include "tessera/support/dtype.h"
#include "tessera/support/result.h"

namespace tessera::onnx {

// 1 is f32 and so on; kUnsupported for types that Tessera does not compute with.
Result<DType> dtype_of_number(std::int64_t onnx_type);
// "FLOAT" is f32 and so on, as operators before opset 6 write it.
Result<DType> dtype_of_word(std::string_view word);

}  // namespace tessera::onnx
