// The storage order of an operand that follows the loops of a tiling.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/scheduling/schedule/state.h"
#include "tessera/scheduling/space/analysis.h"

namespace tessera::space {

// One loop of a tiled stage, outermost first in a list of them.
struct TileLoop {
  std::size_t axis = 0;      // of the stage
  std::int64_t divisor = 1;  // elements of the axis that one step passes over
  std::int64_t modulus = 0;  // steps; 0: as many as it takes
};

// True if each dimension is indexed by one axis of its own or not at all: the loops then determine
// a storage order.
bool can_follow_loops(const Access& access);

// Dimensions in the order in which `loops` walk through them; those without a loop in front.
schedule::Layout follow_loops(const Access& access, const std::vector<TileLoop>& loops);

}  // namespace tessera::space
