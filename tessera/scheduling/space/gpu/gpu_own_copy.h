// Copies to shared memory of groups of threads that share the steps of a product: each copies what
// it adds up itself, and then waits for its own threads alone.
#pragma once

#include <string>

#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/writer.h"

namespace tessera::space {

// Of one operand, a matrix.
struct GpuOwnCopy {
  std::string stage;
  std::size_t along = 0, across = 0;  // dimensions of the steps, and of the rows or columns
  std::int64_t steps = 1;             // of a group
  std::int64_t threads = 1;           // of a group
  std::int64_t lanes = 1;             // elements of an access
  bool by_rows = false;               // the steps of a row stay side by side
  bool transposed = false;            // steps that lie side by side come to lie apart
};
void write_gpu_own_copy(Writer& w, const GpuOwnCopy& copy);

}  // namespace tessera::space
