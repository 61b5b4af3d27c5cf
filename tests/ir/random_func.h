// Random well-formed functions that use every node kind.
#pragma once

#include "tessera/lang/ir/stmt.h"
#include "tessera/support/rng.h"

namespace tessera::ir {

// Passes verify(). Meaningless to run: indices may be out of bounds.
Func random_func(Rng& rng);

}  // namespace tessera::ir
