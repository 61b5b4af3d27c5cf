// Unrolling: explicit loops, and loops chosen by the auto_unroll pragma.
#pragma once

#include "tessera/lang/ir/stmt.h"
#include "tessera/scheduling/lower/build_loop_nest.h"

namespace tessera::lower {

// Marks serial loops of constant extent below a pragma as unrolled, innermost first, while the
// product of the extents stays within the pragma's limit.
ir::Stmt mark_auto_unroll(const ir::Stmt& s, const LoopAttrs& attrs);

// Replaces each kUnrolled loop by copies of its body. Needs: constant extents. Leaves: no kUnrolled
// loop.
ir::Stmt unroll_loops(const ir::Stmt& s);

}  // namespace tessera::lower
