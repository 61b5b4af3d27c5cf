// Tiles in shared memory that the threads of a warp group multiply (Intrinsic::kMma of tiles).
#pragma once

#include <cstdint>

#include "tessera/lang/ir/expr.h"

namespace tessera::ir {

inline constexpr std::int64_t kFragmentThreads = 32;  // that evaluate Intrinsic::kMma together
inline constexpr std::int64_t kGroupThreads = 4 * kFragmentThreads;
inline constexpr std::int64_t kGroupRows = 64;  // of the sums
inline constexpr std::int64_t kMostGroupColumns = 256;
// A tile is made of rows of 128 bytes; elements have two. With the elements of a sum side by side
// (kMatrixRows), row r begins at r * kTileRow. With the rows or columns of the sums side by side
// (kMatrixColumns), element k of the sum has a row of its own, and what is wider than a row follows
// in another tile of kTileRow such rows.
inline constexpr std::int64_t kTileRow = 64;
inline constexpr std::int64_t kTileChunk = 8;          // elements that stay together: 16 bytes
inline constexpr std::int64_t kTileAlign = 1024;       // bytes: eight rows
inline constexpr std::int64_t kGroupDepth = kTileRow;  // elements of a sum that a product adds

// Where element `e` of a tile lies: chunks of a row trade places, by the number of the row in its
// eight, so that neither rows nor columns of chunks meet in a bank.
constexpr std::int64_t swizzled(std::int64_t e) {
  const std::int64_t row = e / kTileRow, chunk = e / kTileChunk % (kTileRow / kTileChunk);
  return row * kTileRow + (chunk ^ row % (kTileRow / kTileChunk)) * kTileChunk + e % kTileChunk;
}

// A product of tiles by a warp group: its operands are places, not what threads hold.
inline bool is_group_product(const Expr& e) {
  const auto* call = e.as<Call>();
  return call && call->fn == Intrinsic::kMma && call->args[1].lanes() == 1;
}

}  // namespace tessera::ir
