// The loops of a stage that runs as a launch -> one body for all threads of the block.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/lang/ir/stmt.h"

namespace tessera::lower {

// Blocks and threads of a launch: a variable and an extent for each dimension.
struct LaunchShape {
  std::array<ir::Expr, 3> block_vars, thread_vars;
  std::array<std::int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
};
LaunchShape make_launch_shape();

inline constexpr int kAllThreadDims = 7;  // a bit for each of x, y, z

// Loops that all threads of the block run together, whatever the threads around them do: those of a
// stage in shared memory, and exchanges between threads. By variable; loops of one stage have the
// same number.
struct Cooperative {
  int stage = 0;
  int dims = 0;   // bit d: threads of dimension d take part; of the others only the first
  int apart = 0;  // bit d: the code tells threads of dimension d apart without a loop
};
using CooperativeLoops = std::map<const ir::ExprNode*, Cooperative>;

// Shared buffers of which every element up to these extents is set, also beyond the edges of the
// tensor.
using SetExtents = std::map<ir::Buffer, std::vector<std::int64_t>>;

// Replaces block and thread loops by the variables of the launch, with a condition where a loop is
// shorter than the launch. Conditions that differ between threads, and loops over virtual threads,
// move inward until they hold nothing cooperative; what is allocated on the way gets one copy per
// virtual thread, unless they store the same. What only computes on `set` elements needs no
// condition: its results are not stored. Prefetches are dropped. Result: loops of the blocks, the
// allocations of shared memory, loops of the threads, the body.
ir::Stmt bind_threads(const ir::Stmt& stage, const LaunchShape& shape,
                      const CooperativeLoops& cooperative, const SetExtents& set);

}  // namespace tessera::lower
