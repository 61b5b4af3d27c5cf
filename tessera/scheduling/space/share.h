// Work shared out among threads: what is worth it, how it is chosen, and the one place that writes
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/scheduling/space/context.h"

namespace tessera::space {

// Below this many operations, handing out work costs more than it saves.
inline bool worth_threads(double operations) { return operations > 4e5; }
// Whether it may be worth trying threads.
bool may_share(const Context& context, const std::string& stage, double operations);
// Parts that the work of a stage should have where it is shared out: as many for each core that one
// more or less does not matter.
std::int64_t wanted_parts(const Context& context);

// A loop outside of the innermost tile.
struct OuterLoop {
  std::string name;
  std::int64_t count = 1;
};
Loops names_of(const std::vector<OuterLoop>& loops);

// How work is shared out among threads.
struct Sharing {
  bool parallel = false;
  // Loops fused and shared out, from the first of more than one iteration; 0: as many as give every
  // core several parts.
  int depth = 0;
};

// The choice for a stage of so many operations.
Sharing choose_sharing(Context& context, const std::string& stage, double operations);

// Makes the leading loops of `outer` parallel, and never beyond the first `limit` of them. The
// loops must be adjacent and in this order already. Returns the loops afterwards.
std::vector<OuterLoop> share_out(Context& context, const std::string& stage, Sharing sharing,
                                 std::vector<OuterLoop> outer, std::size_t limit);

// Makes the first `count` of `loops` one loop, which threads share. Returns the loops afterwards.
Loops share_loops(Writer& writer, const std::string& stage, Loops loops, std::size_t count);

}  // namespace tessera::space
