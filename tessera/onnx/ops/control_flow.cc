#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> control_flow_rows() { return {}; }

}  // namespace tessera::onnx
