// Barriers after which shared memory is used again.
#pragma once

#include "tessera/lang/ir/stmt.h"

namespace tessera::lower {

// Needs: pipelined loops, bodies of launches inside their thread loops. Where much shared memory is
// first used after others was last used (results that are staged after the copies of operands), a
// barrier between both lets it lie in the same place (ir::place_shared).
ir::Stmt reuse_shared(const ir::Stmt& s);

}  // namespace tessera::lower
