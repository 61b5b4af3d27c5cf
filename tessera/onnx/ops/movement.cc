#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> movement_rows() { return {}; }

}  // namespace tessera::onnx
