// Replaces marked loops by one target instruction.
#pragma once

#include "tessera/lang/ir/stmt.h"
#include "tessera/scheduling/lower/build_loop_nest.h"
#include "tessera/support/result.h"

namespace tessera::lower {

// Needs: flat buffers, simplified indices. A marked nest must match the meaning of its intrinsic
// (Intrinsic::kDot4, kDot2, kMma2x8, kMma2x4); otherwise *result is kIllegalSchedule with the first
// difference.
ir::Stmt tensorize_loops(const ir::Stmt& s, const LoopAttrs& attrs, Result<void>* result);

}  // namespace tessera::lower
