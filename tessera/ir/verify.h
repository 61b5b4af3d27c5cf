// Checks the rules of the IR; run after every pass.
#pragma once

#include <string>

#include "tessera/ir/stmt.h"
#include "tessera/support/result.h"

namespace tessera::ir {

// Scoping of variables and buffers, types, ranks, lanes, loop forms. The message names rule and
// node.
Result<void> verify(const Func& func);

}  // namespace tessera::ir
