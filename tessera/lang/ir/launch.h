// Programs of a GPU: launches of thread programs, which share the memory of the device. Semantics:
// tessera/lang/ir/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/lang/ir/stmt.h"

namespace tessera::ir {

// Threads of a warp run together and exchange registers (Intrinsic::kShuffleXor). The number of a
// thread in its block is (z * block[1] + y) * block[0] + x; a warp is Launch::warp consecutive
// ones.
inline constexpr std::int64_t kUsualWarp = 32;  // where nothing else is said

// The body runs once for every thread of every block. It holds serial and unrolled loops, branches,
// stack allocations (one per thread: registers), accesses, barriers and the intrinsics of threads.
struct Launch {
  std::string name;
  std::vector<Buffer> params;       // device memory: parameters and temporaries of the program
  int num_outputs = 0;              // the last num_outputs params are written; the others only read
  std::vector<Buffer> shared;       // one per block, undefined at the start of each
  std::array<Expr, 3> block_vars;   // x, y, z: i64 variables, in scope in the body
  std::array<Expr, 3> thread_vars;  // x, y, z
  std::array<std::int64_t, 3> grid{1, 1, 1};   // blocks
  std::array<std::int64_t, 3> block{1, 1, 1};  // threads of a block
  std::int64_t warp = kUsualWarp;              // threads of a warp
  Stmt body;

  std::int64_t blocks() const { return grid[0] * grid[1] * grid[2]; }
  std::int64_t threads() const { return block[0] * block[1] * block[2]; }
};

// Launches run one after the other: each sees everything that those before it have written.
struct DeviceProgram {
  std::string name;
  std::vector<Buffer> params;  // inputs first, then outputs, as those of a Func
  int num_outputs = 0;
  std::vector<Buffer> temporaries;  // device memory between launches; heap scope
  std::vector<Launch> launches;
  // Parameters that no program ever writes: a promise of the caller, not part of the text.
  std::vector<Buffer> constants;
};

bool equal(const DeviceProgram& a, const DeviceProgram& b);  // structural, as for Func

}  // namespace tessera::ir
