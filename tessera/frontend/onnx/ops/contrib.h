// The operators of domain com.microsoft are spread over several files.
#pragma once

#include <vector>

#include "tessera/frontend/onnx/ops/op.h"

namespace tessera::onnx {

inline constexpr const char* kMicrosoft = "com.microsoft";
inline constexpr const char* kTessera = "tessera";  // what our own readers write

std::vector<OnnxOp> quantized_contrib_rows();
std::vector<OnnxOp> quantized_attention_rows();
std::vector<OnnxOp> stored_contrib_rows();
std::vector<OnnxOp> gather_block_rows();
std::vector<OnnxOp> expert_rows();

}  // namespace tessera::onnx
