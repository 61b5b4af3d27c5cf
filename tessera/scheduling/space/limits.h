// What a candidate may be, so that it runs in registers and compiles in tens of milliseconds.
// Search stays within these limits; what reasoning prefers may exceed them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/machine/target/target.h"

namespace tessera::space::limits {

// Sums of a tile, and the operands that are kept while the others stream past them.
inline bool fits_registers(const target::Target& target, std::int64_t rows, std::int64_t vectors) {
  return rows * vectors + std::min(rows, vectors) <= target.vector_registers;
}

// What is left for sums without a tile, or for all of one, beside `others`.
inline std::int64_t registers_beside(const target::Target& target, int others) {
  return target.vector_registers - others;
}
inline bool fits_registers_beside(const target::Target& target, std::int64_t sums, int others) {
  return sums <= registers_beside(target, others);
}

// A window may hold two vectors of every sum: inputs that sums share are kept, too. With 16
// registers, two vectors take 1.55 accesses of memory a product, many of them spills, and one takes
// 0.65.
inline bool has_many_registers(const target::Target& target) {
  return target.vector_registers >= 32;
}

// Registers of a thread of a GPU: sums, the operands of a step, and what addresses and loops take.
inline std::int64_t gpu_registers(std::int64_t sums, std::int64_t operands, std::int64_t others) {
  return std::max<std::int64_t>(32, sums + operands + others);
}

// ... of which a thread may have so many, and all threads of a block together.
inline bool fits_gpu_registers(const target::Target& target, std::int64_t registers,
                               std::int64_t threads) {
  return registers <= target.vector_registers && registers * threads <= target.gpu.core_registers;
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
// ... of windows with lanes as channels, which reasoning unrolls.
inline constexpr std::int64_t kLaneBody = 220;
inline constexpr std::int64_t kLaneTaps = 32;
// ... of one stage by itself.
inline constexpr std::int64_t kRowCode = 128;
// Expression nodes times vectors, or times rows that are computed side by side.
inline constexpr std::int64_t kNodesOfVectors = 640;
inline constexpr std::int64_t kNodesOfRows = 320;
// Vector operations of a part in all the places its consumer copies it to, and of the consumer
// where the conditions of the part cut it.
inline constexpr std::int64_t kCopied = 96;
inline constexpr std::int64_t kCut = 480;

// On GPUs: outputs of a thread; products of one unrolled body where operands come from shared
// memory, and where they come from memory; rounds of threads over a copy, and over a row, that are
// unrolled.
inline constexpr std::int64_t kGpuSums = 128;
inline constexpr std::int64_t kGpuBody = 1600;
inline constexpr std::int64_t kGpuColumnBody = 512;
inline constexpr std::int64_t kGpuCopyRounds = 16;
inline constexpr std::int64_t kGpuRowRounds = 8;

// Shared memory of a block, where a GPU does not say.
inline constexpr std::int64_t kGpuSharedBytes = std::int64_t{48} << 10;
inline std::int64_t gpu_shared_bytes(const target::Target& target) {
  const std::int64_t own = target.gpu.block_shared_bytes;
  return own > 0 ? own : kGpuSharedBytes;
}

// Bytes of what is computed before another stage takes it over; of the rows of a block.
inline constexpr std::int64_t kLocalBytes = std::int64_t{4} << 20;
inline constexpr std::int64_t kRowBytes = std::int64_t{512} << 10;

}  // namespace tessera::space::limits
