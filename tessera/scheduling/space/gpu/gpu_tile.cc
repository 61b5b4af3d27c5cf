#include "tessera/scheduling/space/gpu/gpu_tile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/lang/ir/shared_places.h"
#include "tessera/scheduling/space/gpu/gpu_block.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {

const std::vector<std::int64_t> kGpuRows = {1, 2, 4, 7, 8, 16};
const std::vector<std::int64_t> kGpuRowThreads = {1, 2, 4, 7, 8, 14, 16, 32};
const std::vector<std::int64_t> kGpuChunks = {1, 2, 3, 4};
const std::vector<std::int64_t> kGpuColumnThreads = {1, 2, 4, 6, 8, 16, 32};
const std::vector<std::int64_t> kGpuSteps = {1, 2, 4, 8, 16, 32, 64};
const std::vector<std::int64_t> kGpuGroups = {1, 2, 4, 8, 12, 16};
const std::vector<std::int64_t> kGpuSplitK = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
const std::vector<std::int64_t> kGpuPipelineStages = {1, 2, 3, 4};

namespace {

// What the estimate knows of a multiprocessor, fitted to 174 schedules of 14 operations that were
// timed on an H200 (`tessera bench --op SPEC --schedule FILE --target cuda`, mean error 10 %; the
// runs were not kept, so the fit cannot be repeated):
// cycles of another launch that adds up parts, of an exchange between groups, until operands of a
// later step are there, of a barrier and of a copy; bytes that the second cache delivers to one
// multiprocessor in a cycle; cycles of every row of banks that a read of shared memory touches; and
// the warps of a scheduler whose waits take half of the time. The numbers below were found in the
// same way, by the operations that they name.
constexpr double kSecondStart = 3390, kExchange = 500;
constexpr double kLatency = 835, kBarrier = 49, kCopy = 17, kCacheBytes = 40;
constexpr double kBankRow = 1.88, kWaiting = 0.335;
constexpr std::int64_t kBankVectors = 4 * kGpuBanks / kGpuCopyBytes;
// Threads of a warp side by side.
std::int64_t warp_columns(const GpuTile& tile) {
  return tile.warp_tiles() ? kGpuWarpColumns : std::min<std::int64_t>(32, tile.column_threads);
}

// Rows of banks that a warp touches when its threads read a vector of their rows.
double bank_rows(const GpuProblem& p, const GpuTile& tile) {
  const GpuProblem::Apart apart = p.apart(tile);
  std::int64_t seen[32];
  std::int64_t most = 1, vectors = 0;
  std::int64_t count[kBankVectors] = {};
  const std::int64_t columns = warp_columns(tile);
  for (std::int64_t lane = 0; lane < 32; lane += columns) {
    const std::int64_t row = lane % tile.group_threads() / columns;
    const std::int64_t at =
        row / tile.row_threads * apart.outer + row % tile.row_threads * apart.row;
    const std::int64_t vector = at / kGpuCopyBytes;
    if (std::find(seen, seen + vectors, vector) != seen + vectors) continue;
    seen[vectors++] = vector;
    most = std::max(most, ++count[vector % kBankVectors]);
  }
  return static_cast<double>(most);
}

// Products that one body holds unrolled, and what a block may reasonably ask for.
constexpr std::int64_t kUsualOutputs = 64, kUsualPipelineStages = 3;
// Large products of two matrices take more outputs for each operand that is read: on an H200, 128 x
// 256 outputs of 4096 x 4096 took 2.90 ms, 128 x 128 took 3.23. Copies of fewer steps, more of them
// under way, suit them better.
constexpr std::int64_t kManyOutputs = kGpuMostOutputs, kManySteps = 16, kManyPipelineStages = 4;
// Where groups of them share the steps, nothing is gained, and narrow tiles of three chunks lose.
constexpr double kNarrowInGroups = 1.13;
constexpr std::int64_t kStepProducts = 96;
// Rows that are read by vectors along them spread over both banks of registers. On an H200, loops
// of 8 x 8 outputs issue a product in 84 instead of 74 % of the cycles, of 8 x 16 in 80 instead
// of 78. For both, the estimate is multiplied by one number: not timed, but the value that leaves
// the defaults of the zoo as three numbers, timed one by one, had made them.
constexpr double kReuse = 0.86;
constexpr std::int64_t kTransposedSteps = 32, kManyTransposedSteps = 8;
constexpr double kTransposedCopies = 0.1;  // of a copy of 16 bytes, for each element
// Groups that copy their own steps wait for themselves. What was timed of them (H200, 128 rows): 32
// x 96 outputs by eight warps of 8 x 12, a tile or a part of one for each multiprocessor; parts of
// few steps do not pay for the exchange. Where those tiles leave multiprocessors idle (128 x 2304),
// 32 x 72 by twelve warps. Of few columns, copies of single elements cost more than they save.
constexpr double kOwnBarrier = 10;
constexpr std::int64_t kOwnColumns = 96, kOwnNarrowThreads = 384;
constexpr std::int64_t kOwnPartSteps = 384;

std::int64_t core_threads(const target::Target& t) {
  return t.gpu.core_threads > 0 ? t.gpu.core_threads : 1024;
}

// Blocks that a multiprocessor holds at once.
std::int64_t resident_blocks(const target::Target& t, const GpuTile& tile, std::int64_t bytes) {
  std::int64_t n = std::max<std::int64_t>(1, core_threads(t) / tile.threads());
  if (t.gpu.core_blocks > 0) n = std::min<std::int64_t>(n, t.gpu.core_blocks);
  const std::int64_t registers = (tile.registers() + 7) / 8 * 8 * tile.threads();
  if (t.gpu.core_registers > 0) n = std::min(n, t.gpu.core_registers / registers);
  const std::int64_t shared =
      ir::shared_in_turn(bytes * tile.pipeline_stages, tile.exchange_bytes());
  if (t.gpu.core_shared_bytes > 0 && shared > 0)
    n = std::min(n, t.gpu.core_shared_bytes / (shared + kGpuBlockBytes));
  return n;
}

// Sums of a few steps: the wait for each may weigh more than the way to the first.
bool short_sum(const GpuProblem& p) { return p.taps == 1 && p.reduce >= 64 && p.reduce < 256; }

// Steps that make up some dozens of products for each sum, and lie in vectors.
std::int64_t preferred_steps(const GpuProblem& p) {
  std::int64_t steps = 1;
  for (const std::int64_t s : kGpuSteps) {
    const bool short_sum = s == 32 && (p.taps > 1 || p.reduce < 256);
    if (s > 32 || s > p.reduce || short_sum) break;
    if (s == 1 || s * p.taps <= kStepProducts) steps = s;
  }
  return steps;
}

}  // namespace

std::int64_t GpuTile::registers() const {
  const std::int64_t ahead = row_lanes > 1 ? 2 : 4;
  return limits::gpu_registers(outputs(), ahead * thread_rows() + lanes * chunks, 24);
}

std::int64_t GpuTile::group_lanes() const {
  const std::int64_t elements = outer_length() * row_length() * column_length();
  std::int64_t out = lanes;
  while (out > 1 && elements % (out * threads()) != 0 && elements % threads() == 0) out /= 2;
  return out;
}

GpuLowered lower_gpu_tile(const GpuTile& tile, std::int64_t outer, std::int64_t row,
                          std::int64_t column) {
  GpuLowered out{.tile = tile};
  if (tile.groups == 1) return out;
  std::int64_t outer_length = at_most(tile.outer_length(), outer);
  std::int64_t row_length = at_most(tile.row_length(), row);
  const std::int64_t column_length = at_most(tile.column_length(), column);
  const std::int64_t columns = parts_of(column_length, tile.group_lanes());
  const std::int64_t rounds = parts_of(outer_length * row_length * columns, tile.threads());
  const std::int64_t reached = rounds * tile.threads();
  if (rounds > 1 && outer > 0) {
    outer_length = at_most(parts_of(reached, row_length * columns), outer);
  } else if (rounds > 1 && row > 0) {
    row_length = at_most(parts_of(reached, columns), row);
  }
  out.tile.outer_rows = parts_of(outer_length, tile.outer_threads);
  out.tile.rows = parts_of(row_length, tile.row_threads);
  out.exchange_bytes = whole_gpu_banks(4 * tile.groups * outer_length * row_length * column_length);
  // Rows for which no virtual threads were made are a loop around copies and exchange.
  const auto loops = [](std::int64_t made, std::int64_t needed) { return made == 1 && needed > 1; };
  out.in_turn = !loops(tile.outer_rows, out.tile.outer_rows) && !loops(tile.rows, out.tile.rows);
  return out;
}

const char* refuse_groups(const GpuProblem& p, std::int64_t steps, std::int64_t groups) {
  if (groups == 1) return nullptr;
  if (steps % groups != 0 || p.reduce % steps != 0) return "the groups differ in steps";
  return p.reduce == steps && steps == groups ? "a step for each group is all there is" : nullptr;
}

const char* refuse_split_k(const GpuProblem& p, std::int64_t steps, std::int64_t groups,
                           std::int64_t split_k) {
  if (split_k == 1) return nullptr;
  if (p.reduce % split_k != 0) return "the parts differ in length";
  if (groups > 1 && p.reduce / split_k % steps != 0) return "the groups differ in steps";
  return p.reduce / split_k < steps ? "less than the steps between copies" : nullptr;
}

namespace {

// What a tile asks of shared memory, however many parts there are.
struct Memory {
  std::int64_t bytes = 0;  // of a step
  double bank_rows = 1;
};

// Of adding up parts of so many bytes each, and of writing them where they do not stay in the
// cache.
double add_cycles(const target::Target& t, double bytes, double split_k) {
  const double cache = kCacheBytes * static_cast<double>(std::max(1, t.cores));
  const bool stay = split_k * bytes <= static_cast<double>(t.l2_bytes) / 2;
  if (stay || t.gpu.clock_mhz <= 0) return bytes * (split_k + 1) / cache;
  const double memory = 1e3 * t.gpu.bandwidth_gb_s / t.gpu.clock_mhz;  // bytes of a cycle
  return bytes * (2 * split_k + 1) / std::min(cache, memory);
}

// Of the cycles that the instructions of a tile would take.
double cost_factor(const GpuTile& tile) {
  const bool many = tile.outputs() > kUsualOutputs;
  const double reuse = tile.row_lanes == 1 ? 1 : kReuse;
  if (tile.groups == 1) return reuse * (many ? kReuse : 1);
  if (many) return reuse;
  return reuse * (tile.chunks > 2 ? kNarrowInGroups : 1);
}

double estimate(const target::Target& t, const GpuProblem& p, const GpuTile& tile,
                const Memory& memory_use) {
  const std::int64_t bytes = memory_use.bytes;
  const std::int64_t resident = resident_blocks(t, tile, bytes);
  if (resident < 1) return HUGE_VAL;
  const std::int64_t tiles = p.batch * parts_of(p.outer, tile.outer_length()) *
                             parts_of(p.row, tile.row_length()) *
                             parts_of(p.column, tile.column_length());
  const std::int64_t cores = std::max(1, t.cores);
  const auto per_core = static_cast<double>(parts_of(tiles * tile.split_k, cores));
  const double at_once = std::min(per_core, static_cast<double>(resident));
  const auto warps = static_cast<double>(parts_of(tile.threads(), 32));
  const auto iterations =
      static_cast<double>(parts_of(parts_of(p.reduce, tile.split_k), tile.steps));
  // Of a sum between copies.
  const std::int64_t steps = tile.steps / tile.groups;
  const auto products = static_cast<double>(steps * p.taps);
  // Instructions of a warp between copies: products, reads of operands, the copies themselves.
  const auto across = static_cast<double>(warp_columns(tile));
  const double reads =
      static_cast<double>(tile.thread_rows()) / (p.vectors ? 4.0 : 1.0) * memory_use.bank_rows +
      static_cast<double>(tile.chunks) * std::max(1.0, across / 8);
  double vectors = static_cast<double>(bytes) / 16;
  if (tile.row_lanes > 1)
    vectors += kTransposedCopies * static_cast<double>(tile.row_length() * tile.steps);
  const double copies = vectors / static_cast<double>(tile.threads());
  const double issued = products * (static_cast<double>(tile.outputs()) + kBankRow * reads) +
                        kCopy * copies + (tile.own ? kOwnBarrier : kBarrier);
  // Warps of a scheduler hide each other's waits.
  const double hiding = at_once * warps / kGpuSchedulers;
  const double efficiency = hiding / (hiding + kWaiting);
  const double lanes = t.gpu.core_lanes > 0 ? t.gpu.core_lanes : 64;
  const double factor = cost_factor(tile);
  const double compute =
      factor * std::max(issued * warps * 32 / lanes / efficiency, products * reads * warps);
  const double memory = static_cast<double>(bytes) / kCacheBytes;
  const double waits = tile.pipeline_stages > 1
                           ? kLatency / static_cast<double>(tile.pipeline_stages - 1)
                           : kLatency;
  const double round = std::max({at_once * compute, at_once * memory, waits}) +
                       (tile.pipeline_stages > 1 ? 0.0 : kLatency);
  double cycles = round * iterations * per_core / at_once;
  if (tile.own) cycles += at_once * memory;  // of the first step, which all wait for
  // Sums of the groups go through shared memory once.
  cycles += tile.groups == 1
                ? 0
                : kExchange + 2 * static_cast<double>(tile.exchange_bytes()) / 128 * per_core;
  // Of windows of one element over maps, whose sums neither groups nor blocks share: as much as the
  // start of another block.
  if (p.taps == 1 && p.outer > 1 && tile.groups == 1 && tile.split_k == 1)
    cycles += gpu_rate(t, &target::Rates::block_start_cycles);
  if (tile.split_k > 1) {
    const auto sums = static_cast<double>(p.outer * p.row * p.column * p.batch);
    cycles += kSecondStart + add_cycles(t, 4 * sums, static_cast<double>(tile.split_k));
  }
  return cycles;
}

}  // namespace

GpuTile choose_gpu_tile(const target::Target& t, const GpuProblem& p, std::int64_t lanes) {
  const std::int64_t most_threads =
      std::min(kGpuThreads, std::max<std::int64_t>(1, t.gpu.block_threads));
  GpuTile best{.lanes = lanes, .steps = preferred_steps(p), .pipeline_stages = 1};
  double least = HUGE_VAL;
  // Lengths of which the last part would not be empty.
  const auto useful = [](std::int64_t count, std::int64_t of, std::int64_t extent) {
    return count == 1 || (count - 1) * of < extent;
  };
  const auto odd = [](std::int64_t count, std::int64_t extent) {
    return count % 7 == 0 && extent % 7 != 0;
  };
  GpuTile tile{.lanes = lanes, .steps = best.steps};
  const std::int64_t most_sums = p.taps == 1 && p.batch == 1 ? kManyOutputs : kUsualOutputs;
  const bool product = p.taps == 1 && p.batch == 1;
  const auto compare = [&](const Memory& memory) {
    const double cycles = estimate(t, p, tile, memory);
    if (cycles >= least) return;
    least = cycles;
    best = tile;
  };
  const auto consider_parts = [&](bool many) {
    tile.pipeline_stages = many ? kManyPipelineStages : kUsualPipelineStages;
    const std::int64_t preferred = tile.steps;
    for (const std::int64_t usual : {preferred, 2 * preferred}) {
      const std::int64_t steps = many ? std::min(usual, kManySteps) : usual;
      if (steps > preferred && !(short_sum(p) && p.reduce % steps == 0)) continue;
      tile.steps = steps;
      const Memory memory{.bytes = p.step_bytes(tile), .bank_rows = bank_rows(p, tile)};
      for (const std::int64_t split_k : kGpuSplitK) {
        if (split_k > 1 && many) break;
        tile.split_k = split_k;
        if (!refuse_split_k(p, tile.steps, 1, split_k) && p.reduce / split_k % tile.steps == 0)
          compare(memory);
        if (split_k == 1 && p.reduce % tile.steps != 0) compare(memory);
      }
    }
    tile.steps = preferred;
    tile.split_k = 1;
  };
  const auto consider_groups = [&](bool many) {
    for (const std::int64_t groups : kGpuGroups) {
      const std::int64_t steps = groups * (p.taps > 1 ? 4 : 8);
      if (groups == 1 || tile.group_threads() * groups > most_threads) continue;
      if (many && tile.group_threads() * groups != kGpuThreads) continue;
      if (tile.group_threads() % 32 != 0) continue;  // a warp would belong to two of them
      if (refuse_groups(p, steps, groups)) continue;
      tile.groups = groups;
      const std::int64_t before = std::exchange(tile.steps, steps);
      for (const std::int64_t pipeline_stages : {2, 3}) {
        if (pipeline_stages > 2 && !product) break;
        tile.pipeline_stages = pipeline_stages;
        compare({.bytes = p.step_bytes(tile), .bank_rows = bank_rows(p, tile)});
      }
      tile.steps = before;
      tile.groups = 1;
    }
  };
  const auto consider_own = [&](bool many) {
    const bool narrow = tile.column_threads == 6;
    const std::int64_t threads = narrow ? kOwnNarrowThreads : kGpuThreads;
    const std::int64_t tiles =
        parts_of(p.row, tile.row_length()) * parts_of(p.column, tile.column_length());
    if ((!narrow && !many) || tile.chunks != 3 || threads > t.gpu.block_threads ||
        (!narrow && tile.column_length() < kOwnColumns) || threads % tile.group_threads() != 0 ||
        (narrow && tiles > t.cores))
      return;
    const GpuTile before = tile;
    tile.groups = threads / tile.group_threads();
    tile.row_lanes = kGpuRowLanes;
    tile.own = true;
    for (const std::int64_t each : {8, 4}) {
      tile.steps = tile.groups * each;
      tile.pipeline_stages = each == 8 ? 3 : 4;
      if (tile.groups < 2 || refuse_groups(p, tile.steps, tile.groups) ||
          (each == 4 && tile.group_threads() != 32))
        continue;
      const Memory memory{.bytes = p.step_bytes(tile), .bank_rows = bank_rows(p, tile)};
      for (const std::int64_t split_k : kGpuSplitK) {
        const bool pays = p.reduce / split_k >= kOwnPartSteps && tiles * split_k <= t.cores;
        tile.split_k = split_k;
        if (split_k > 1 && (narrow || !pays)) break;
        if (!refuse_split_k(p, tile.steps, tile.groups, split_k)) compare(memory);
      }
    }
    tile = before;
  };
  // What was timed: one tile for each multiprocessor, or several waves of blocks of which two lie
  // beside each other.
  const auto consider_turned = [&](bool many) {
    const std::int64_t tiles =
        parts_of(p.row, tile.row_length()) * parts_of(p.column, tile.column_length());
    const std::int64_t steps = many ? kManyTransposedSteps : kTransposedSteps;
    if (tile.threads() != kGpuThreads || p.reduce % steps != 0 || many != (tiles <= t.cores) ||
        (many && tile.chunks <= 2))
      return;
    const GpuTile before = tile;
    tile.row_lanes = kGpuRowLanes;
    tile.steps = steps;
    tile.pipeline_stages = many ? kManyPipelineStages : kUsualPipelineStages;
    compare({.bytes = p.step_bytes(tile), .bank_rows = bank_rows(p, tile)});
    tile = before;
  };
  const auto consider = [&] {
    if (tile.threads() > most_threads || tile.outputs() > most_sums) return;
    const bool many = tile.outputs() > kUsualOutputs;
    if (product && p.transposes && tile.rows % kGpuRowLanes == 0) consider_own(many);
    if (tile.column_threads == 6) return;
    if (many == (tile.chunks > 2) && (!many || tile.threads() == kGpuThreads)) consider_parts(many);
    if (product || tile.chunks <= 2) consider_groups(many);
    if (product && p.transposes && tile.rows % kGpuRowLanes == 0 &&
        (tile.outputs() == kUsualOutputs || tile.outputs() == kManyOutputs))
      consider_turned(many);
  };
  const auto filled = [&](std::int64_t extent, std::int64_t of) {
    return std::min<std::int64_t>(parts_of(extent, of), t.gpu.warp);
  };
  const std::int64_t least_threads = std::min<std::int64_t>(
      t.gpu.warp, filled(p.column, lanes) * filled(p.row, 1) * filled(p.outer, 1) / 4);
  for (const std::int64_t ct : kGpuColumnThreads) {
    if (!useful(ct, lanes, p.column)) break;
    for (const std::int64_t chunks : kGpuChunks) {
      if (!useful(chunks, ct * lanes, p.column)) break;
      for (const std::int64_t rt : kGpuRowThreads) {
        if (!useful(rt, 1, p.row) || rt * ct > most_threads) break;
        if (odd(rt, p.row)) continue;
        for (const std::int64_t rows : kGpuRows) {
          if (!useful(rows, rt, p.row) || rows * chunks * lanes > most_sums) break;
          if (odd(rows, p.row)) continue;
          for (const std::int64_t ot : kGpuRowThreads) {
            if (!useful(ot, 1, p.outer) || rt * ct * ot > most_threads) break;
            for (const std::int64_t outer : kGpuRows) {
              if (!useful(outer, ot, p.outer)) break;
              if (odd(ot, p.outer) || odd(outer, p.outer)) continue;
              tile.column_threads = ct;
              tile.chunks = chunks;
              tile.row_threads = rt;
              tile.rows = rows;
              tile.outer_threads = ot;
              tile.outer_rows = outer;
              if (tile.group_threads() >= least_threads) consider();
            }
          }
        }
      }
    }
  }
  return best;
}

}  // namespace tessera::space
