// Products by warp groups (wgmma): their tiles, and what they are likely to cost.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/gpu/gpu_tensor.h"
#include "tessera/scheduling/space/limits.h"

namespace tessera::space {

// Of a block.
struct GroupTile {
  std::int64_t row_groups = 1, column_groups = 1;
  std::int64_t row_tiles = 1;        // of 64 rows, that a group holds
  std::int64_t columns = 64;         // of a group
  std::int64_t pipeline_stages = 4;  // for copies of one row's steps of the reduction
  std::int64_t split_k = 1;          // of the reduction, each in blocks of its own

  std::int64_t rows() const { return row_groups * row_tiles * kWgmmaRows; }
  std::int64_t all_columns() const { return column_groups * columns; }
  std::int64_t threads() const { return row_groups * column_groups * kWgmmaThreads; }
  // Of a thread: sums, addresses.
  std::int64_t registers() const { return limits::gpu_registers(row_tiles * columns / 2, 0, 40); }
};

std::int64_t group_shared_bytes(const TensorProblem& problem, const GroupTile& tile);

// Why a device cannot run it; null if it can.
const char* refuse_group_tile(const target::Target& target, const TensorProblem& problem,
                              const GroupTile& tile);

// Clock cycles, roughly; to be compared with estimate_tensor_cycles.
double estimate_group_cycles(const target::Target& target, const TensorProblem& problem,
                             const GroupTile& tile);

// The best by that estimate.
GroupTile choose_group_tile(const target::Target& target, const TensorProblem& problem);

// A product with its epilogue, on a device that has warp groups for its types.
class GpuGroup {
 public:
  virtual ~GpuGroup() = default;
  // Whether its best tile is likely to take fewer cycles than so many.
  virtual bool wins(double cycles) const = 0;
  virtual void run() = 0;  // asks for the tile and writes the steps
};

// Null where the operands do not lie as the instruction needs them.
std::unique_ptr<GpuGroup> make_gpu_group(Context& context, const Contraction& contraction,
                                         const Nest& nest,
                                         const target::MatrixInstruction& instruction);

}  // namespace tessera::space
