#include "tessera/machine/target/core_table.h"

#include <algorithm>
#include <array>

namespace tessera::target {
namespace {

// 86 tiles of twelve columns are 1032: what covers 1024.
constexpr std::array<std::int64_t, 15> kTileCounts = {1,  2,  3,  4,  6,  8,   12, 16,
                                                      24, 32, 48, 64, 86, 128, 256};

constexpr std::array kCores = {
    Core{
        .cpu = "neoverse-v1",
        .arch = Arch::kAArch64,
        .lane_operands = true,
        // Chosen by trying neighbouring values with `tessera bench`; the runs were not kept.
        .tile_overhead = 24,
        .most_rows = 16,
        .scattered_rows = 8,
        .body = 176,
        .unrolled_body = 352,
        .panel_share = 0.62,
        .block_share = 0.3,
        .shortest_block = 32,
        .part_rows = 128,
        .few_tiles = 5,
        .tile_counts = kTileCounts,
        .streamed_tiles = 4,
        .stream_steps = 288,
        // Rows are often a power of two apart: layer normalization of five takes 3 to 8 % less time
        // than of four. Four vectors take 7 % more time than eight.
        .rows = 5,
        .row_vectors = 8,
        // Exponentials are staggered, which is worth more the longer it can go on: of 32 vectors in
        // place of 16 a softmax takes 3 % less time, and two to five times as long to compile.
        .exp_vectors = 16,
        .most_exp_vectors = 32,
        // Over 32 some are spilled, which costs less than waiting: eight exponentials take 6.3
        // cycles each side by side, 9.0 one after the other.
        .most_alive = 56,
        .most_alive_staggered = 32,
    },
    Core{
        .cpu = "skylake-avx512",
        .arch = Arch::kX86_64,
        .lane_operands = false,
        // Chosen as above, on Sapphire Rapids. Shares of L1 are those of Neoverse V1: panels come
        // from L2.
        .tile_overhead = 24,
        .most_rows = 16,
        .scattered_rows = 16,
        .body = 176,
        .unrolled_body = 352,
        .panel_share = 0.62,
        .block_share = 0.3,
        .shortest_block = 32,
        .part_rows = 128,
        .few_tiles = 5,
        .tile_counts = kTileCounts,
        .streamed_tiles = 4,
        .stream_steps = 288,
        .rows = 5,
        .row_vectors = 8,
        .exp_vectors = 0,
        .most_exp_vectors = 0,
        .most_alive = 0,
        .most_alive_staggered = 0,
    },
};

}  // namespace

std::span<const Core> cores() { return kCores; }

const Core& core_of(Arch arch, std::string_view cpu) {
  const auto found = std::find_if(kCores.begin(), kCores.end(),
                                  [&](const Core& c) { return c.arch == arch && c.cpu == cpu; });
  if (found != kCores.end()) return *found;
  const auto same =
      std::find_if(kCores.begin(), kCores.end(), [&](const Core& c) { return c.arch == arch; });
  return same != kCores.end() ? *same : kCores[0];
}

}  // namespace tessera::target
