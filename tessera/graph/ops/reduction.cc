#include "tessera/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> reduction_ops() { return {}; }

}  // namespace tessera::graph
