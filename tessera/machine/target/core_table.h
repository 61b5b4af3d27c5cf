// What code for a core looks like where its rates (rates.h) do not say it: how operands are read,
// and how much a body, a panel or a block of its loops may hold.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/machine/target/target.h"

namespace tessera::target {

struct Core {
  std::string_view cpu;  // LLVM name
  Arch arch;

  // Multiplies take one lane of a vector (NEON): the scalars of a step are loaded together, from
  // rows that lie side by side. Elsewhere each is broadcast from memory wherever it lies, at an
  // offset that is part of the instruction, and copies of the rows gain nothing.
  bool lane_operands;
  // Cycles around the loop of a register tile: setting sums, writing back, the loops outside.
  double tile_overhead;
  std::int64_t most_rows;       // of a tile
  std::int64_t scattered_rows;  // ... that lie apart: each takes a register for its address

  // Multiply-adds of vectors in the body of an innermost loop: steps of a long axis, a short one
  // unrolled whole.
  std::int64_t body, unrolled_body;
  // Shares of L1: of the panel of a tile while the other operand streams past it; when sums are
  // kept in memory anyway and blocks may be as short as they like.
  double panel_share, block_share;
  std::int64_t shortest_block;  // shorter ones spend their time adding to memory
  std::int64_t part_rows;       // over which a block of columns is used before the next part begins
  std::int64_t few_tiles;       // of a window, below which sums stay in registers
  // Lengths of parts to try, in tiles.
  std::span<const std::int64_t> tile_counts;

  // Tiles of rows that use a panel before the next one is wanted: so few leave no time to fetch it.
  std::int64_t streamed_tiles;
  std::int64_t stream_steps;  // of the reduction that a streamed panel is fetched ahead

  // Rows of a norm computed side by side: the folding of one hides behind the others.
  std::int64_t rows;
  std::int64_t row_vectors;  // per step of a short expression, row after row
  // Vectors of an exponential in one body, preferred and at most; 0: as of other expressions.
  std::int64_t exp_vectors, most_exp_vectors;

  // Vectors alive at once in a loop whose instructions are ordered here, and where constants are
  // loaded where they are needed; 0: the order is left to LLVM.
  int most_alive, most_alive_staggered;
};

// The row of the CPU, or the first one of its architecture.
const Core& core_of(Arch arch, std::string_view cpu);
inline const Core& core_of(const Target& target) { return core_of(target.arch, target.cpu); }

std::span<const Core> cores();

}  // namespace tessera::target
