#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> attention_rows() { return {}; }

}  // namespace tessera::onnx
