// Barriers where threads of a block use what others have stored in shared memory.
#pragma once

#include "tessera/lang/ir/stmt.h"

namespace tessera::lower {

// Needs: flat buffers, bodies of launches inside their thread loops (bind_threads). A barrier goes
// before a read of what another thread may have stored since the last one, and before a store to
// what another may still have to read, also where that happened in an earlier iteration of a loop
// around; as far out as possible, and nowhere else. Accesses of a stage to its own storage need
// none: each element belongs to one thread.
ir::Stmt insert_barriers(const ir::Stmt& s);

}  // namespace tessera::lower
