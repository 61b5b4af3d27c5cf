#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> host_rows() { return {}; }

}  // namespace tessera::onnx
