#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> activation_rows() { return {}; }

}  // namespace tessera::onnx
