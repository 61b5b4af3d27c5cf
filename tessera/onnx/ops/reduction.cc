#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> reduction_rows() { return {}; }

}  // namespace tessera::onnx
