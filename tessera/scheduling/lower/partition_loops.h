// Splits loops where conditions change, so that the hot part runs without them.
#pragma once

#include "tessera/lang/arith/interval.h"
#include "tessera/lang/ir/stmt.h"
#include "tessera/scheduling/lower/build_loop_nest.h"

namespace tessera::lower {

// Serial loops are cut into the ranges where every condition on their variable is decided; the body
// of a parallel loop becomes `if (all conditions hold) fast copy else general copy`, for
// each of the loops that it was fused of. Applies to loops marked for
// peeling, and to small loops over selects (padding). Leaves: bodies simplified with the narrowed
// ranges.
ir::Stmt partition_loops(const ir::Stmt& s, const LoopAttrs& attrs);

// for i in n { if (i < m && rest) body }  ->  for i in min(n, m) { if (rest) body }
// Serial loops take any m free of i; unrolled and vectorized loops only constants.
ir::Stmt trim_loops(const ir::Stmt& s);

}  // namespace tessera::lower
