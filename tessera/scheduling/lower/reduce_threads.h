// A reduction whose partial results lie in the registers of several threads.
#pragma once

#include <string>
#include <vector>

#include "tessera/lang/ir/stmt.h"
#include "tessera/lang/te/dag.h"
#include "tessera/scheduling/lower/bind_threads.h"

namespace tessera::lower {

struct ThreadReduction {
  const LaunchShape& shape;
  std::int64_t warp;
  int dim;              // of the threads that hold the parts
  std::int64_t extent;  // how many do; the others of that dimension hold the neutral element
  te::Reducer reducer;
  std::vector<ir::Buffer> accumulators;  // one, or two for arg reductions; on the stack
  std::vector<ir::Expr> index;           // the element of each
  std::string name;
};

struct ThreadExchange {
  std::vector<ir::Stmt> steps;  // all threads of the block run each; the compiler puts barriers
                                // between them where shared memory needs it
  std::vector<ir::Buffer> shared;
};

// Afterwards every thread holds the result over all `extent` threads that agree with it in the
// other dimensions. Parts are combined in a fixed order: within a warp by shuffles where the
// threads are neighbours in warps, between warps and otherwise through shared memory.
ThreadExchange reduce_threads(const ThreadReduction& r);

}  // namespace tessera::lower
