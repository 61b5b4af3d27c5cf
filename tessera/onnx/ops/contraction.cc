#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> contraction_rows() { return {}; }

}  // namespace tessera::onnx
