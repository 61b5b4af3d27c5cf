// Copies to shared memory that run ahead of the iterations that use them.
#pragma once

#include <set>

#include "tessera/lang/ir/stmt.h"
#include "tessera/scheduling/lower/build_loop_nest.h"
#include "tessera/support/result.h"

namespace tessera::lower {

// for k in n { barrier; copy(k); barrier; use(k) }, marked with a depth of d, becomes
//
//   copy(0), commit, ..., copy(d-2), commit
//   for k in n { wait(d-2); barrier; if k + d-1 < n { copy(k + d-1) }; commit; use(k) }
//
// with d places for what is copied, and one barrier where there were two: it also keeps the copy
// from overwriting what other threads still use. Where warp groups multiply, it is
//
//   for k in n { wait(d-3); barrier; use(k); if k + d-2 < n { copy(k + d-2) }; commit }; wait(0)
//
// as the products of k - 1 go on; they are in such loops only. Where groups of threads only use
// what they copied themselves, wait(d-2, t) takes the place of wait and barrier (private_copies.h).
// Needs: flat buffers, barriers (insert_barriers). *result is kIllegalSchedule when the loop is not
// of that form. Adds the buffers to *copied.
ir::Stmt pipeline_loops(const ir::Stmt& s, const LoopAttrs& attrs, std::set<ir::Buffer>* copied,
                        Result<void>* result);

// Stores to `copied` of what was just loaded from device memory become asynchronous copies where
// one has 4, 8 or 16 bytes, and plain stores otherwise. Last, after vectorize_loops and
// unroll_loops. Where none is left and no warp group
// multiplies, neither are commits and waits.
ir::Stmt start_copies(const ir::Stmt& s, const std::set<ir::Buffer>& copied);

}  // namespace tessera::lower
