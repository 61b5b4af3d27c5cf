#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> pointwise_rows() { return {}; }

}  // namespace tessera::onnx
