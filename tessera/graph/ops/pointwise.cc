#include "tessera/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> pointwise_ops() { return {}; }

}  // namespace tessera::graph
