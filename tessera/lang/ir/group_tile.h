// Tiles in shared memory that the threads of a warp group multiply (Intrinsic::kMma of tiles).
#pragma once

#include <cstdint>

#include "tessera/lang/ir/expr.h"

namespace tessera::ir {

inline constexpr std::int64_t kFragmentThreads = 32;  // that evaluate Intrinsic::kMma together
inline constexpr std::int64_t kGroupThreads = 4 * kFragmentThreads;
inline constexpr std::int64_t kGroupRows = 64;  // of the sums
inline constexpr std::int64_t kMostGroupColumns = 256;
// A tile is made of rows of 128 bytes. With the elements of a sum side by side (kMatrixRows), row r
// begins at r * tile_row. With the rows or columns of the sums side by side (kMatrixColumns, of
// elements of two bytes), element k of the sum has a row of its own, and what is wider than a row
// follows in another tile of tile_row such rows.
inline constexpr std::int64_t kTileAlign = 1024;  // bytes: eight rows
inline constexpr std::int64_t kTileChunks = 8;    // of a row: 16 bytes that stay together
// Elements of a row, which are also those of a sum that a product adds, and of a chunk.
inline std::int64_t tile_row(DType t) { return 128 / size_bytes(t); }
inline std::int64_t tile_chunk(DType t) { return tile_row(t) / kTileChunks; }

// Where element `e` of a tile lies: chunks of a row trade places, by the number of the row in its
// eight, so that neither rows nor columns of chunks meet in a bank.
inline std::int64_t swizzled(DType t, std::int64_t e) {
  const std::int64_t length = tile_chunk(t), row = e / tile_row(t);
  return row * tile_row(t) + (e / length % kTileChunks ^ row % kTileChunks) * length + e % length;
}

// Whether a product of a group may have so many columns.
inline bool is_group_width(DType sums, std::int64_t columns) {
  return columns % (sums == DType::kI32 ? 16 : 8) == 0 && columns <= kMostGroupColumns;
}

// A product of tiles by a warp group: its operands are places, not what threads hold.
inline bool is_group_product(const Expr& e) {
  const auto* call = e.as<Call>();
  return call && call->fn == Intrinsic::kMma && call->args[1].lanes() == 1;
}

}  // namespace tessera::ir
