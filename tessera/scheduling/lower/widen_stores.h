// Results of tensor cores, stored 16 bytes at a time.
#pragma once

#include "tessera/lang/ir/stmt.h"

namespace tessera::lower {

// Threads 4r to 4r + 3 of a warp hold two neighbouring elements each of every eight in a row. Of
// four such stores in a sequence, 8 elements apart, each thread takes all eight of one instead:
// they exchange pairs, and store 16 bytes where they stored 4 four times. In launches that multiply
// matrices, for elements of two bytes, where all threads of a warp arrive. Needs: flat buffers,
// vectors, unrolled loops.
ir::Stmt widen_stores(const ir::Stmt& s);

}  // namespace tessera::lower
