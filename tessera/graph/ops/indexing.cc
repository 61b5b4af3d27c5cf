#include "tessera/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> indexing_ops() { return {}; }

}  // namespace tessera::graph
