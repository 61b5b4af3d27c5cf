#include "tessera/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> movement_ops() { return {}; }

}  // namespace tessera::graph
