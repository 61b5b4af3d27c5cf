// Replaces marked loops by one target instruction.
#pragma once

#include "tessera/lang/ir/stmt.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/lower/build_loop_nest.h"
#include "tessera/support/result.h"

namespace tessera::lower {

// Needs: flat buffers, simplified indices. A marked nest must match the meaning of the row of
// `rows` that it names; otherwise *result is kIllegalSchedule with the first difference.
ir::Stmt tensorize_loops(
    const ir::Stmt& s, const LoopAttrs& attrs, Result<void>* result,
    std::span<const target::MatrixInstruction> rows = target::matrix_instructions());

}  // namespace tessera::lower
