#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> recurrent_rows() { return {}; }

}  // namespace tessera::onnx
