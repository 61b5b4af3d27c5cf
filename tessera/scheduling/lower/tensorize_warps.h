// Replaces marked loops by products that the threads of a warp compute together.
#pragma once

#include "tessera/lang/ir/stmt.h"
#include "tessera/scheduling/lower/build_loop_nest.h"
#include "tessera/support/result.h"

namespace tessera::lower {

// Needs: buffers as declared, threads bound. A marked nest (loops over 16 rows, 16 columns and the
// sum) becomes two products of 16 x 8, its operands come from shared memory, and the buffer of its
// sums is spread over the 32 threads in x: each holds what Intrinsic::kMma says of every 16 x 8.
// Other statements may read a sum only in the thread that holds it. Otherwise *result is
// kIllegalSchedule with the first difference.
ir::Stmt tensorize_warps(const ir::Stmt& s, const LoopAttrs& attrs, Result<void>* result);

}  // namespace tessera::lower
