// Schedules for GPUs: every stage a launch of its own, but for sums that stay in the registers of
// the threads that use them, rows that are reduced and used by the same threads, and operands that
// blocks copy to shared memory.
#pragma once

#include <algorithm>

#include "tessera/scheduling/space/context.h"

namespace tessera::space {

// All stages of the context. `simple`: one thread for each element, nothing copied.
void write_gpu_stages(Context& context, bool simple);

// A product with a register tile in every thread, a tile of threads in every block and the operands
// of a block in shared memory, together with the stage that applies its epilogue. False, and
// nothing is written, where the stage is none or has a single row.
bool schedule_gpu_contraction(Context& context, std::size_t stage);

// softmax(Q K^T) V by its last product, with the scores of a block in shared memory. False, and
// nothing is written, where the stage is not such a product or they do not fit.
bool schedule_gpu_attention(Context& context, std::size_t stage);

// The reductions along memory that a stage uses, row by row, and the stage itself. False, and
// nothing is written, where it uses none.
bool schedule_gpu_rows(Context& context, std::size_t nest);
// One such reduction, with its epilogue.
bool schedule_gpu_row_sums(Context& context, std::size_t stage);

// A reduction across memory with its epilogue: depthwise convolutions, pools. False, and nothing is
// written, where there is nothing to reduce.
bool schedule_gpu_columns(Context& context, std::size_t stage);

// A transform of tiles, and the transform before it: a thread computes all elements of a tile.
// False, and nothing is written, where the stage is none.
bool schedule_gpu_transform(Context& context, std::size_t stage);

// Elements that are read across memory. False, and nothing is written, where they are not.
bool schedule_gpu_transpose(Context& context, std::size_t stage);

// Output loops of more than one iteration, the last one if there is none; and the others. Fused
// with the first, the others would only cost divisions.
struct GpuLoops {
  Loops shared, units;
};
GpuLoops gpu_loops(const Stage& stage, const std::vector<std::size_t>& axes);

// Threads that keep the memory of a device busy: half of those that its cores hold.
inline std::int64_t busy_gpu_threads(const target::Target& t) {
  return std::int64_t{t.gpu.core_threads} / 2 * std::max(1, t.cores);
}

// Threads of a block, at most `most`: fewer where so many in all would leave cores without blocks.
std::int64_t spread_gpu_threads(const Context& c, std::int64_t threads, std::int64_t most);

// Loops of a stage that computes element by element, bound to blocks and threads: a thread has
// `lanes` elements side by side where the last axis divides, and in between the loop `reduce` if
// the stage has one, and the loops `inside`.
struct GpuElements {
  std::string thread;
  std::int64_t lanes = 1;
};
GpuElements bind_gpu_elements(Context& context, std::size_t stage, std::int64_t threads,
                              std::int64_t lanes, const Loops& reduce, const Loops& inside = {});

// One thread for each element, or for a few side by side.
void schedule_gpu_elements(Context& context, std::size_t stage, bool simple);

// Neighbouring outputs are computed, or reduced, of neighbouring elements: threads that take one
// each read whole lines.
bool reads_along_outputs(const Stage& stage);

}  // namespace tessera::space
