#include "tessera/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> window_ops() { return {}; }

}  // namespace tessera::graph
