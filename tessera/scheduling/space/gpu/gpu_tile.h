// The tile of a contraction on a GPU: outputs of a thread, threads of a block, steps of the
// reduction between copies; and what it is likely to cost.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/machine/target/target.h"

namespace tessera::space {

// Neighbouring threads that take the same columns of rows side by side: reads of 16 bytes are
// served two quarters of a warp at a time where neighbours want the same.
inline constexpr std::int64_t kGpuPair = 2;
// Threads of a warp that form a tile, and the most sums that a thread may hold.
inline constexpr std::int64_t kGpuWarpRows = 4, kGpuWarpColumns = 8, kGpuMostOutputs = 128;
// Rows that lie side by side where the left operand is turned round on its way to shared memory.
inline constexpr std::int64_t kGpuRowLanes = 4;

// Bytes of a buffer in shared memory: each begins at a row of banks.
inline std::int64_t whole_gpu_banks(std::int64_t bytes) { return (bytes + 127) / 128 * 128; }

// Threads of a block, where nothing was measured.
inline constexpr std::int64_t kGpuThreads = 256;

// Threads and virtual threads of each axis; the columns of a thread come in chunks of `lanes`.
struct GpuTile {
  std::int64_t outer_rows = 1, outer_threads = 1;  // of the second axis of rows
  std::int64_t rows = 1, row_threads = 1;
  std::int64_t row_lanes = 1;  // rows side by side, which are then read by vectors
  std::int64_t chunks = 1, column_threads = 1, lanes = 4;
  std::int64_t steps = 8;    // of the reduction in shared memory at once
  std::int64_t groups = 1;   // of threads, which share the steps and add up their sums at the end
  std::int64_t split_k = 1;  // of the reduction, each in blocks of its own
  std::int64_t pipeline_stages =
      2;             // for copies: so many steps are under way; 1: none while others compute
  bool own = false;  // each group copies its own steps

  // Of one group, and of the block.
  std::int64_t group_threads() const { return outer_threads * row_threads * column_threads; }
  std::int64_t threads() const { return groups * group_threads(); }
  // Where a warp has many columns and few rows, pairs cost as much as they save (H200).
  bool row_pairs() const {
    return row_threads % kGpuPair == 0 && column_threads > 1 && column_threads <= 8;
  }
  // The threads of a warp are 4 x 8 rather than 2 x 16 where each has the most sums (H200: 2.86 ms
  // instead of 2.95 for 4096 x 4096 x 4096), or reads its rows by vectors along them.
  bool warp_tiles() const {
    return groups == 1 && outer_threads * outer_rows == 1 &&
           (outputs() >= kGpuMostOutputs || row_lanes > 1) && column_threads > kGpuWarpColumns &&
           row_threads % kGpuWarpRows == 0;
  }
  std::int64_t thread_rows() const { return outer_rows * rows; }
  std::int64_t outputs() const { return thread_rows() * chunks * lanes; }
  std::int64_t outer_length() const { return outer_rows * outer_threads; }
  std::int64_t row_length() const { return rows * row_threads; }
  std::int64_t column_length() const { return chunks * column_threads * lanes; }
  // Bytes in which the groups of a block exchange their sums.
  std::int64_t exchange_bytes() const {
    return groups == 1
               ? 0
               : whole_gpu_banks(4 * groups * outer_length() * row_length() * column_length());
  }
  // Neighbouring elements of the tile that a thread takes when groups add up their sums: as many as
  // leave every thread the same number.
  std::int64_t group_lanes() const;
  // Of a thread: sums, operands, addresses.
  std::int64_t registers() const;
};

// What becomes of a tile in lowering.
struct GpuLowered {
  GpuTile tile;  // with the rows that are computed
  std::int64_t exchange_bytes = 0;
  bool in_turn = true;  // the exchange comes after all copies
};
// With the extents of the axes, 0 for one that does not exist. All threads of a block with groups
// take the elements of the tile in rounds: if the last of several is not full, the rows that it
// would reach are computed all the same.
GpuLowered lower_gpu_tile(const GpuTile& tile, std::int64_t outer, std::int64_t row,
                          std::int64_t column);

// What a tile is chosen for.
struct GpuProblem {
  std::int64_t outer = 1, row = 1,
               column = 1;  // extents; without a second axis of rows `outer` is 1
  std::int64_t batch = 1;   // everything else that is computed
  std::int64_t reduce = 1;  // extent of the axis that is cut into steps
  std::int64_t taps = 1;    // the other reduce axes
  bool vectors = true;      // rows are read by vectors along the steps
  bool transposes = false;  // or along the rows, if copies turn the operand round
  // Bytes of the operands of one step in shared memory.
  std::function<std::int64_t(const GpuTile&)> step_bytes;
  // Bytes between the rows of neighbouring threads there.
  struct Apart {
    std::int64_t outer = 0, row = 0;
  };
  std::function<Apart(const GpuTile&)> apart;
};

// Values that tuning may take, ascending.
extern const std::vector<std::int64_t> kGpuRows, kGpuRowThreads, kGpuChunks, kGpuColumnThreads,
    kGpuSteps, kGpuGroups, kGpuSplitK, kGpuPipelineStages;

// The best of the listed values by a rough estimate of clock cycles.
GpuTile choose_gpu_tile(const target::Target& target, const GpuProblem& problem,
                        std::int64_t lanes);

// Why groups cannot share the steps; null if they can.
const char* refuse_groups(const GpuProblem& problem, std::int64_t steps, std::int64_t groups);
// Why parts of the reduction cannot be computed apart; null if they can.
const char* refuse_split_k(const GpuProblem& problem, std::int64_t steps, std::int64_t groups,
                           std::int64_t split_k);

}  // namespace tessera::space
