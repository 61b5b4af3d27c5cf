#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> quantization_rows() { return {}; }

}  // namespace tessera::onnx
