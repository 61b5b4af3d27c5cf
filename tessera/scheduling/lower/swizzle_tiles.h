// The order of elements within tiles that warp groups multiply.
#pragma once

#include "tessera/lang/ir/stmt.h"
#include "tessera/support/result.h"

namespace tessera::lower {

// Accesses of the buffers whose tiles products of warp groups name (ir::is_group_product) go where
// ir::swizzled says. Needs: flat buffers, vectors. *result is kIllegalSchedule where a vector of
// such a buffer is not a part of one chunk of 16 bytes.
ir::Stmt swizzle_tiles(const ir::Stmt& s, Result<void>* result);

}  // namespace tessera::lower
