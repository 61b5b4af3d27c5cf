// Where every allocated buffer of a Func lives.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "tessera/lang/ir/stmt.h"

namespace tessera::codegen {

enum class Home : std::uint8_t { kStack, kShared, kWorker };

struct Slot {
  Home home = Home::kStack;
  std::int64_t offset = 0;  // bytes from the start of the shared or of the worker's part
};

struct Workspace {
  std::unordered_map<const ir::Allocate*, Slot> slots;
  std::int64_t shared_bytes = 0;  // multiples of kAlignment
  std::int64_t worker_bytes = 0;
};

inline constexpr std::int64_t kAlignment = 64;

// Buffers get disjoint memory even when their lifetimes do not meet: generated code tells LLVM that
// no two buffers alias, so a reused address could be reordered across the two lifetimes.
Workspace plan_workspace(const ir::Stmt& body);

// Whether a loop is handed to the host: a parallel loop inside another one, or of one iteration, is
// not.
bool runs_parallel(const ir::For& loop, bool inside_parallel);

}  // namespace tessera::codegen
