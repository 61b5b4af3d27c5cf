#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> convolution_rows() { return {}; }

}  // namespace tessera::onnx
