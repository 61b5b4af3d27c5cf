// What is decided about a contraction before its loops are written.
#pragma once

#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/share.h"

namespace tessera::space {

enum class LoopOrder {
  kColumns,    // a panel of b stays in L1 while rows stream past it
  kOuterRows,  // outer rows, columns, rows
  kRows,       // columns innermost
  kRowsFirst,  // also inside of the other axes of columns
};

enum class Hoist {
  kNone,
  kRows,   // the outer rows stand outside of the batch
  kTiles,  // and so do the tiles of rows
};

enum class PartOrder {
  kColumns,
  kRows,
  kOuterRows,  // one outer row at a time
};

struct ContractionTiling {
  int lanes = 1;
  bool pack_a = false, pack_b = false;  // copied; constants are laid out as they are read anyway
  std::int64_t rows = 1, columns = 1;   // of the register tile, elements
  std::int64_t unroll = 1;              // steps of the innermost reduce axis
  bool unroll_next = false;             // the reduce axis outside of it, too
  std::int64_t prefetch = 0;            // steps ahead of the tile, of the panel of b; 0: none
  bool prefetch_steps = false;  // every unrolled step asks for its share, not the first alone
  bool prefetch_next = false;   // the tiles of a panel of b together ask for the next one
  schedule::Tail row_tail = schedule::Tail::kPeel;
  Sharing sharing;

  // Sums completed in memory, block by block of this axis; else the fields of the next group.
  int block_axis = -1;
  std::int64_t block = 0;
  std::int64_t wide = 1, tall = 1;  // columns and rows of a part, elements
  PartOrder part_order = PartOrder::kColumns;
  bool rows_outside = true;  // among the tiles of a part
  bool share_tiles = false;  // threads take tiles within a block of k, not parts
  bool pixels = false;       // the innermost two axes of rows are one
  // Both operands are copied block by block, into what stays in L2: b as panels, the rows of a as
  // they are.
  bool copy_blocks = false, copy_rows = false;

  std::int64_t panel = 0;  // tiles of rows that stay in L2 while columns change; 0: all

  // Sums finished in registers.
  LoopOrder order = LoopOrder::kColumns;
  Hoist hoist = Hoist::kNone;
};

// Length of the axis of the rows of the tile; 1 where there is one row.
std::int64_t row_extent(const Stage& stage, const Contraction& c);
// Points of these axes of the stage together.
std::int64_t points_of(const Stage& stage, const std::vector<std::size_t>& axes);

ContractionTiling tile_contraction(Context& context, const Contraction& c, const Nest& nest);

}  // namespace tessera::space
