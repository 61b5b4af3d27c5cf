#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> pooling_rows() { return {}; }

}  // namespace tessera::onnx
