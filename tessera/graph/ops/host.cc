#include "tessera/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> host_ops() { return {}; }

}  // namespace tessera::graph
