#include "tessera/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> contraction_ops() { return {}; }

}  // namespace tessera::graph
