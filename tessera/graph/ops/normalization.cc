#include "tessera/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> normalization_ops() { return {}; }

}  // namespace tessera::graph
