// Vectorized loops -> vector expressions.
#pragma once

#include "tessera/lang/ir/stmt.h"

namespace tessera::lower {

// Needs: flat buffers, constant extents. Leaves: no kVectorized loop. A loop longer than a vector
// register becomes several vectors and power-of-two remainders; one whose iterations cannot run in
// lockstep (a condition or a loop bound depends on it, or a store does not) is unrolled instead.
ir::Stmt vectorize_loops(const ir::Stmt& s, int vector_bytes);

}  // namespace tessera::lower
