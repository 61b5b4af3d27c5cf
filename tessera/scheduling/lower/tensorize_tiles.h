// Replaces marked loops by instructions on tile registers, which keep the sums from the first to
// the last step of the reduction.
#pragma once

#include "tessera/lang/ir/stmt.h"
#include "tessera/scheduling/lower/build_loop_nest.h"
#include "tessera/support/result.h"

namespace tessera::lower {

// Needs: flat buffers, simplified indices. Around the marked loops, which compute one tile of sums
// each, there may be unrolled loops over tiles and loops of the reduction; before them, the sums
// are set to zero. Otherwise *result is kIllegalSchedule with the first difference.
ir::Stmt tensorize_tiles(const ir::Stmt& s, const LoopAttrs& attrs, Result<void>* result);

}  // namespace tessera::lower
