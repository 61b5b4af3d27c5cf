// Checks the rules of the IR; run after every pass.
#pragma once

#include <string>

#include "tessera/lang/ir/launch.h"
#include "tessera/lang/ir/stmt.h"
#include "tessera/support/result.h"

namespace tessera::ir {

// Scoping of variables and buffers, types, ranks, lanes, loop forms. The message names rule and
// node.
Result<void> verify(const Func& func);
// The same, and that only what threads may do is in the launches: no loops of other kinds, no
// memory but stack and shared, barriers only where no condition or loop around differs between
// threads.
Result<void> verify(const DeviceProgram& program);

}  // namespace tessera::ir
