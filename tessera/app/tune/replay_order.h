// In which order records of earlier sessions are worth learning from.
#pragma once

#include <cstddef>
#include <vector>

namespace tessera::app {

// Batches of indices into `seconds` (oldest first; 0: no time), each index once. The first holds
// the fastest and the newest in equal parts, the others go from the newest to the oldest. Within a
// batch the oldest comes first, as it was measured.
std::vector<std::vector<std::size_t>> replay_order(const std::vector<double>& seconds,
                                                   std::size_t batch);

}  // namespace tessera::app
