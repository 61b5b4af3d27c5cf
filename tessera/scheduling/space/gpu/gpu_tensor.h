// The tile of a product on tensor cores, and what it is likely to cost.
#pragma once

#include <cstdint>

#include "tessera/machine/target/target.h"
#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/limits.h"

namespace tessera::space {

// A product of f16, bf16, bytes or, where rounding to tf32 is allowed, f32 on tensor cores, with
// its epilogue: tiles of warps in blocks, operands through shared memory. False, and nothing is
// written, where the target has none for the types or the operands do not lie as they need them.
bool schedule_gpu_tensor(Context& context, const Contraction& contraction, const Nest& nest);

struct TensorTile {
  std::int64_t warp_rows = 16, warp_columns = 16;  // outputs of a warp
  std::int64_t row_warps = 1, column_warps = 1;    // warps of a block
  std::int64_t steps = 32;                         // of the reduction in shared memory at once
  std::int64_t pipeline_stages = 2;                // for copies
  std::int64_t split_k = 1;                        // of the reduction, each in blocks of its own
  std::int64_t outer_warps = 1;                    // of a block, along the second axis of rows
  // All taps of a window are in shared memory at once, with what they read of the image once.
  bool whole_windows = false;

  std::int64_t rows() const { return warp_rows * row_warps; }  // along the first axis of them
  std::int64_t all_rows() const { return outer_warps * rows(); }
  std::int64_t columns() const { return warp_columns * column_warps; }
  std::int64_t warps() const { return outer_warps * row_warps * column_warps; }
  // Of a thread: sums, operands of a step, addresses.
  std::int64_t registers() const {
    return limits::gpu_registers(warp_rows * warp_columns / 32, (warp_rows + warp_columns) / 2, 44);
  }
};

// What a tile is chosen for.
struct TensorProblem {
  std::int64_t row = 16, column = 16;  // extents
  std::int64_t batch = 1;              // everything else that is computed
  std::int64_t reduce = 16;            // extent of the axis that is cut into steps
  std::int64_t taps = 1;               // the other reduce axes
  std::int64_t bytes = 2;              // of an element
  std::int64_t depth = 16;             // of the instruction
  std::int64_t outer = 1;              // extent of the second axis of rows
  // Rows of an operand that are copied for one of the sums: windows with strides leave some out.
  std::int64_t row_step = 1, outer_step = 1;
  // Elements that the taps of a window reach beyond the rows, along both axes.
  std::int64_t row_reach = 0, outer_reach = 0;
  bool beside = false;  // columns lie side by side: groups of warps copy them in rows of 64
  bool staged = false;  // results of groups of warps pass through shared memory
  // Planes of both operands that the taps look up; the products of each step are then summed apart.
  // Groups of warps copy all planes at once.
  std::int64_t planes = 1;
};

// Shared memory of a block.
std::int64_t tensor_shared_bytes(const TensorProblem& problem, const TensorTile& tile);

// Why a device cannot run it; null if it can.
const char* refuse_tensor_tile(const target::Target& target, const TensorProblem& problem,
                               const TensorTile& tile);

// Clock cycles, roughly; for comparison only.
double estimate_tensor_cycles(const target::Target& target, const TensorProblem& problem,
                              const TensorTile& tile);

// The best by that estimate.
TensorTile choose_tensor_tile(const target::Target& target, const TensorProblem& problem);

}  // namespace tessera::space
