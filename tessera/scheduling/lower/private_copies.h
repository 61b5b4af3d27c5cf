// Copies to shared memory of which every group of threads only uses its own.
#pragma once

#include <map>
#include <vector>

#include "tessera/lang/ir/stmt.h"

namespace tessera::lower {

// The threads of a block, of one dimension.
struct BlockThreads {
  ir::Expr var;
  std::int64_t count = 1, warp = 1;
};

// How many threads the smallest groups have (whole warps, so many one after the other) that write
// to `places` in `copies` only what no other group reads there in `uses`, and use no other shared
// memory; 0 when it takes all threads, or nothing is known. Needs flat buffers.
std::int64_t private_group(const std::vector<ir::Stmt>& copies, const std::vector<ir::Stmt>& uses,
                           const std::map<ir::Buffer, ir::Buffer>& places,
                           const BlockThreads& threads);

}  // namespace tessera::lower
