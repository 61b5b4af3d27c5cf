// Copies to shared memory of groups of threads that share the steps of a product: each copies what
// it adds up itself, and then waits for its own threads alone.
#pragma once

#include <string>

#include "tessera/scheduling/space/writer.h"

namespace tessera::space {

// Banks of shared memory. Steps of an operand that is turned round begin so many elements after a
// multiple of them: eight steps of four rows, which a warp copies, then lie in different ones.
inline constexpr std::int64_t kGpuBanks = 32;
inline constexpr std::int64_t kGpuTurnedPad = 4, kGpuTurnedSteps = 8;

// Of one operand, a matrix.
struct GpuOwnCopy {
  std::string stage;
  std::size_t along = 0, across = 0;  // dimensions of the steps, and of the rows or columns
  std::int64_t steps = 1;             // of a group
  std::int64_t threads = 1;           // of a group
  std::int64_t lanes = 1;             // elements of an access
  bool by_rows = false;               // the steps of a row stay side by side
  bool turned = false;                // steps that lie side by side come to lie apart
};
void write_gpu_own_copy(Writer& w, const GpuOwnCopy& copy);

}  // namespace tessera::space
