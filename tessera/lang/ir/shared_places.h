// Where the shared buffers of a launch lie.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/lang/ir/launch.h"

namespace tessera::ir {

struct SharedPlaces {
  std::vector<std::int64_t> offsets;  // in bytes, of each buffer of the launch
  std::int64_t bytes = 0;             // of all of them
  std::int64_t align = 128;  // of each: a row of banks, or as tiles of warp groups must lie
  bool overlap = false;      // some take the place of others
};

// A buffer that is first used after a barrier takes the place of those that were last used before
// it. Only barriers that no loop or branch surrounds count.
SharedPlaces place_shared(const Launch& launch);

// Lowering adds a barrier where as many bytes can be used again.
inline constexpr std::int64_t kReusedShared = 16 << 10;
// Bytes of what lies in shared memory first, and of what is used after it.
inline std::int64_t shared_in_turn(std::int64_t early, std::int64_t late) {
  return early < kReusedShared || late < kReusedShared ? early + late : early < late ? late : early;
}

// Calls `use` for every statement of a thread's body that no loop or branch surrounds, in order.
void for_each_outer_stmt(const Stmt& body, const std::function<void(const Stmt&)>& use);
// Calls `use` with every shared buffer that is read or written below.
void for_each_shared(const Stmt& s, const std::function<void(const Buffer&)>& use);

inline std::int64_t buffer_bytes(const Buffer& b) { return b.size() * size_bytes(b->dtype); }

}  // namespace tessera::ir
