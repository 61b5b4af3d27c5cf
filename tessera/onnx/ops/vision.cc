#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> vision_rows() { return {}; }

}  // namespace tessera::onnx
