#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {

std::vector<OnnxOp> indexing_rows() { return {}; }

}  // namespace tessera::onnx
