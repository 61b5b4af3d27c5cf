#include "tessera/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> convolution_ops() { return {}; }

}  // namespace tessera::graph
