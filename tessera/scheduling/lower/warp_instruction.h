// Products that the threads of a warp, or of the four warps of a group, compute together.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tessera/support/dtype.h"

namespace tessera::lower {

struct WarpInstruction {
  std::string_view name;  // in schedules
  std::int64_t threads;
  std::int64_t rows, columns, depth;  // of the loops; columns 0: multiples of 8, at most 256
  std::array<DType, 2> operands;      // the element types it takes
  DType sums;

  // A group names tiles of shared memory; the threads of a warp hold their operands.
  bool is_group() const { return columns == 0; }
};

// Null: none of that name.
const WarpInstruction* find_warp_instruction(std::string_view name);

}  // namespace tessera::lower
