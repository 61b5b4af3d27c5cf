// What a candidate may be, so that it runs in registers and compiles in tens of milliseconds.
// Search stays within these limits; what reasoning prefers may exceed them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/target/target.h"

namespace tessera::space::limits {

// Sums of a tile, and the operands that are kept while the others stream past them.
inline bool fits_registers(const target::Target& target, std::int64_t rows, std::int64_t vectors) {
  return rows * vectors + std::min(rows, vectors) <= target.vector_registers;
}

// Sums without a tile, beside `others`.
inline bool fits_registers_beside(const target::Target& target, std::int64_t sums, int others) {
  return sums + others <= target.vector_registers;
}

// Nodes of the product of two reads; longer expressions count for more.
inline std::int64_t length_of(int nodes) { return std::max(1, nodes / 8); }

// Vector operations in the body of the innermost loop of a tiling, with the loops around it and in
// all copies that tails and conditions make of both.
inline constexpr std::int64_t kTileBody = 160;
inline constexpr std::int64_t kTileLoops = 12;
inline constexpr std::int64_t kTileCode = 288;
// ... of a contraction that reasoning writes: multiply-adds alone, in all copies. Conditions of
// padding make so many.
inline constexpr std::int64_t kProducts = 800;
inline constexpr std::int64_t kConditionCopies = 4;
// ... of products of bytes: instructions of one body.
inline constexpr std::int64_t kDots = 256;
// ... of windows with lanes as outputs: sums times taps, without and with conditions; taps.
inline constexpr std::int64_t kWindowBody = 240;
inline constexpr std::int64_t kConditionalWindowBody = 120;
inline constexpr std::int64_t kWindowTaps = 64;
// ... of one stage by itself.
inline constexpr std::int64_t kRowCode = 128;
// Expression nodes times vectors, or times rows that are computed side by side.
inline constexpr std::int64_t kNodesOfVectors = 640;
inline constexpr std::int64_t kNodesOfRows = 320;
// Vector operations of a part in all the places its consumer copies it to, and of the consumer
// where the conditions of the part cut it.
inline constexpr std::int64_t kCopied = 96;
inline constexpr std::int64_t kCut = 480;

// Bytes of what is computed before another stage takes it over; of the rows of a block.
inline constexpr std::int64_t kLocalBytes = std::int64_t{4} << 20;
inline constexpr std::int64_t kRowBytes = std::int64_t{512} << 10;

}  // namespace tessera::space::limits
