// Gives every buffer one dimension.
#pragma once

#include "tessera/lang/ir/stmt.h"

namespace tessera::lower {

// Leaves: each Load and Store has one index, row-major over the former dimensions.
ir::Func flatten_buffers(const ir::Func& func);

}  // namespace tessera::lower
