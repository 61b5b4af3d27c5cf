#include "tessera/scheduling/space/gpu/gpu_tile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/lang/ir/shared_places.h"
#include "tessera/scheduling/space/gpu/cost.h"
#include "tessera/scheduling/space/gpu/gpu_block.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {

const std::vector<std::int64_t> kGpuRows = {1, 2, 4, 7, 8, 16};
const std::vector<std::int64_t> kGpuRowThreads = {1, 2, 4, 7, 8, 14, 16, 32};
const std::vector<std::int64_t> kGpuChunks = {1, 2, 3, 4};
const std::vector<std::int64_t> kGpuColumnThreads = {1, 2, 4, 6, 8, 16, 32};
const std::vector<std::int64_t> kGpuSteps = {1, 2, 4, 8, 16, 32, 64};
const std::vector<std::int64_t> kGpuGroups = {1, 2, 4, 8, 12, 16};
const std::vector<std::int64_t> kGpuParts = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
const std::vector<std::int64_t> kGpuPlaces = {1, 2, 3, 4};

namespace {

// What code costs in issue slots of a warp, fitted with the rates of an H200 to the times of 174
// schedules of 14 operations (`bench --op SPEC --schedule FILE --target cuda`; mean error 10 %).
constexpr double kReadIssue = 1.88;  // for every row of banks that a read of shared memory touches
constexpr double kCopyIssue = 17;    // for every copy of 16 bytes
constexpr double kTurnedCopy = 0.1;  // of such a copy, for each element that is turned round
constexpr double kWaiting = 0.335;   // warps of a scheduler whose waits take half of the time
constexpr double kExchange = 500;    // cycles until the groups of a block have added up their sums
// Cycles of windows of one element over maps, whose sums neither groups nor blocks share: with it,
// the best by the estimate of 13 strided ones are 17 instead of 21 % slower than the fastest that
// was timed (`tune --op conv2d:... --target cuda`).
constexpr double kUnshared = 600;
// Of every multiprocessor: its schedulers, and how its shared memory lies in banks.
constexpr double kSchedulers = 4;
constexpr std::int64_t kVectorBytes = 16, kBankVectors = 8, kBankRowBytes = 128;

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
    const std::int64_t vector = at / kVectorBytes;
    if (std::find(seen, seen + vectors, vector) != seen + vectors) continue;
    seen[vectors++] = vector;
    most = std::max(most, ++count[vector % kBankVectors]);
  }
  return static_cast<double>(most);
}

// What a block may reasonably ask for, and the sums of a thread that leave room for other blocks.
constexpr std::int64_t kMaxThreads = 256, kMinThreads = 32;
constexpr std::int64_t kUsualSums = 64;
// Of the slots of such a thread: twice as many sums share the operands that are read (4096 x 4096:
// 128 x 256 sums of a block 2.90 ms, 128 x 128 3.23), hardly where groups share the steps (128 x
// 3072 x 768: 18.7 us, in parts 19.8); narrow tiles of three chunks lose there. Rows that are read
// by vectors along them spread over both banks of registers: loops of 8 x 8 sums issue a product in
// 84 instead of 74 % of the cycles, of 8 x 16 in 80 instead of 78. (H200, `bench --op matmul:...
// --target cuda`.)
constexpr double kMany = 0.88, kManyInGroups = 0.98, kNarrowInGroups = 1.13;
constexpr double kTurned = 0.86, kManyTurned = 0.9;
// Products of a sum between copies, at most: their loop is unrolled whole.
constexpr std::int64_t kStepProducts = 96;

std::int64_t core_threads(const target::Target& t) {
  return t.gpu.core_threads > 0 ? t.gpu.core_threads : 1024;
}

// Blocks that a multiprocessor holds at once.
std::int64_t resident_blocks(const target::Target& t, const GpuTile& tile, std::int64_t bytes) {
  std::int64_t n = std::max<std::int64_t>(1, core_threads(t) / tile.threads());
  if (t.gpu.core_blocks > 0) n = std::min<std::int64_t>(n, t.gpu.core_blocks);
  const std::int64_t registers = (tile.registers() + 7) / 8 * 8 * tile.threads();
  if (t.gpu.core_registers > 0) n = std::min(n, t.gpu.core_registers / registers);
  const std::int64_t shared = ir::shared_in_turn(bytes * tile.places, tile.exchange_bytes());
  if (t.gpu.core_shared_bytes > 0 && shared > 0)
    n = std::min(n, t.gpu.core_shared_bytes / (shared + 1024));
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
  return limits::gpu_registers(sums(), ahead * thread_rows() + lanes * chunks, 24);
}

const char* refuse_groups(const GpuProblem& p, std::int64_t steps, std::int64_t groups) {
  if (groups == 1) return nullptr;
  if (steps % groups != 0 || p.reduce % steps != 0) return "the groups differ in steps";
  return p.reduce == steps && steps == groups ? "a step for each group is all there is" : nullptr;
}

const char* refuse_parts(const GpuProblem& p, std::int64_t steps, std::int64_t groups,
                         std::int64_t parts) {
  if (parts == 1) return nullptr;
  if (p.reduce % parts != 0) return "the parts differ in length";
  if (groups > 1 && p.reduce / parts % steps != 0) return "the groups differ in steps";
  return p.reduce / parts < steps ? "less than the steps between copies" : nullptr;
}

namespace {

// What a tile asks of shared memory, however many parts there are.
struct Memory {
  std::int64_t bytes = 0;  // of a step
  double bank_rows = 1;
};

// Of the slots that the instructions of a tile would take.
double issue_factor(const GpuTile& tile) {
  const bool many = tile.sums() > kUsualSums;
  const double turned = tile.row_lanes == 1 ? 1 : many ? kManyTurned : kTurned;
  if (tile.groups == 1) return turned * (many ? kMany : 1);
  return turned * (many ? kManyInGroups : tile.chunks > 2 ? kNarrowInGroups : 1);
}

// Of what the threads of a block compute between copies, with so many blocks side by side.
double compute_cycles(const target::Rates& rates, const GpuProblem& p, const GpuTile& tile,
                      const Memory& memory_use, double at_once) {
  const auto warps = static_cast<double>(parts_of(tile.threads(), 32));
  const auto products = static_cast<double>(tile.steps / tile.groups * p.taps);  // of a sum
  // Slots of a warp: products, reads of operands, the copies themselves.
  const auto across = static_cast<double>(warp_columns(tile));
  const double reads =
      static_cast<double>(tile.thread_rows()) / (p.vectors ? 4.0 : 1.0) * memory_use.bank_rows +
      static_cast<double>(tile.chunks) * std::max(1.0, across / 8);
  double vectors = static_cast<double>(memory_use.bytes) / kVectorBytes;
  if (tile.row_lanes > 1)
    vectors += kTurnedCopy * static_cast<double>(tile.row_length() * tile.steps);
  const double copies = vectors / static_cast<double>(tile.threads());
  // Groups that copy what they add up wait for their own warps alone.
  const double meeting = rates.barrier_cycles / (tile.own ? static_cast<double>(tile.groups) : 1);
  const double issued = products * (static_cast<double>(tile.sums()) + kReadIssue * reads) +
                        kCopyIssue * copies + meeting;
  // Warps of a scheduler hide each other's waits.
  const double hiding = at_once * warps / kSchedulers;
  const double efficiency = hiding / (hiding + kWaiting);
  return issue_factor(tile) *
         std::max(issued * warps * 32 / rates.fma_per_cycle / efficiency,
                  products * reads * warps * kBankRowBytes / rates.shared_bytes_per_cycle);
}

double estimate(const target::Target& t, const GpuProblem& p, const GpuTile& tile,
                const Memory& memory_use) {
  const target::Rates& rates = t.rates;
  const std::int64_t resident = resident_blocks(t, tile, memory_use.bytes);
  if (resident < 1) return HUGE_VAL;
  const std::int64_t tiles = p.batch * parts_of(p.outer, tile.outer_length()) *
                             parts_of(p.row, tile.row_length()) *
                             parts_of(p.column, tile.column_length());
  const std::int64_t cores = std::max(1, t.cores);
  const auto per_core = static_cast<double>(parts_of(tiles * tile.parts, cores));
  const double at_once = std::min(per_core, static_cast<double>(resident));
  const auto iterations = static_cast<double>(parts_of(parts_of(p.reduce, tile.parts), tile.steps));
  const double compute = at_once * compute_cycles(rates, p, tile, memory_use, at_once);
  const double memory =
      at_once * static_cast<double>(memory_use.bytes) / (kThreadCopies * rates.l2_bytes_per_cycle);
  const double wait = rates.line_latency_cycles;
  const double round =
      tile.places > 1 ? std::max({compute, memory, wait / static_cast<double>(tile.places - 1)})
                      : std::max({compute, memory, wait}) + wait;
  double cycles = rates.block_start_cycles + round * iterations * per_core / at_once;
  if (tile.own) cycles += memory;  // of the first step, which all wait for
  // Sums of the groups go through shared memory once.
  if (tile.groups > 1)
    cycles += kExchange + 2 * static_cast<double>(tile.exchange_bytes()) / kBankRowBytes * per_core;
  if (p.taps == 1 && p.outer > 1 && tile.groups == 1 && tile.parts == 1) cycles += kUnshared;
  if (tile.parts > 1) {
    const auto sums = static_cast<double>(p.outer * p.row * p.column * p.batch);
    cycles += split_k_cycles(t, sums, static_cast<double>(tile.parts));
  }
  return cycles;
}

// Goes through the listed values and keeps the tile of fewest cycles.
class TileChoice {
 public:
  TileChoice(const target::Target& target, const GpuProblem& problem, std::int64_t lanes)
      : target_(target),
        problem_(problem),
        lanes_(lanes),
        most_threads_(std::min(kMaxThreads, std::max<std::int64_t>(1, target.gpu.block_threads))),
        steps_(preferred_steps(problem)),
        product_(problem.taps == 1 && problem.batch == 1),
        most_sums_(product_ ? kGpuMostSums : kUsualSums),
        best_({.lanes = lanes, .steps = steps_, .places = 1}),
        tile_{.lanes = lanes, .steps = steps_} {}

  GpuTile run() {
    const GpuProblem& p = problem_;
    const auto filled = [&](std::int64_t extent, std::int64_t of) {
      return std::min(parts_of(extent, of), kMinThreads);
    };
    least_threads_ =
        std::min(kMinThreads, filled(p.column, lanes_) * filled(p.row, 1) * filled(p.outer, 1) / 4);
    for (const std::int64_t threads : kGpuColumnThreads) {
      if (!useful(threads, lanes_, p.column)) break;
      for (const std::int64_t chunks : kGpuChunks) {
        if (!useful(chunks, threads * lanes_, p.column)) break;
        tile_.column_threads = threads;
        tile_.chunks = chunks;
        choose_rows();
      }
    }
    return best_.best();
  }

 private:
  // Lengths of which the last part would not be empty.
  static bool useful(std::int64_t count, std::int64_t of, std::int64_t extent) {
    return count == 1 || (count - 1) * of < extent;
  }
  // Counts that are no powers of two are for extents that they divide.
  static bool even(std::int64_t count, std::int64_t extent) {
    const std::int64_t odd = count / (count & -count);
    return extent % odd == 0;
  }

  void choose_rows() {
    const GpuProblem& p = problem_;
    for (const std::int64_t threads : kGpuRowThreads) {
      if (!useful(threads, 1, p.row) || threads * tile_.column_threads > most_threads_) break;
      for (const std::int64_t rows : kGpuRows) {
        if (!useful(rows, threads, p.row) || rows * tile_.chunks * lanes_ > most_sums_) break;
        tile_.row_threads = threads;
        tile_.rows = rows;
        if (even(threads, p.row) && even(rows, p.row)) choose_outer_rows();
      }
    }
  }
  void choose_outer_rows() {
    const GpuProblem& p = problem_;
    for (const std::int64_t threads : kGpuRowThreads) {
      if (!useful(threads, 1, p.outer) ||
          threads * tile_.row_threads * tile_.column_threads > most_threads_)
        break;
      for (const std::int64_t rows : kGpuRows) {
        if (!useful(rows, threads, p.outer)) break;
        tile_.outer_threads = threads;
        tile_.outer_rows = rows;
        const bool fits = tile_.threads() <= most_threads_ && tile_.sums() <= most_sums_;
        if (fits && even(threads, p.outer) && even(rows, p.outer) &&
            tile_.group_threads() >= least_threads_)
          choose_sharing();
      }
    }
  }

  bool many() const { return tile_.sums() > kUsualSums; }
  std::int64_t tiles() const {
    return parts_of(problem_.row, tile_.row_length()) *
           parts_of(problem_.column, tile_.column_length());
  }

  void choose_sharing() {
    const GpuTile tile = tile_;
    const bool turns = product_ && problem_.turns && tile.rows % kGpuRowLanes == 0;
    if (turns) share_own_steps();
    tile_ = tile;
    if (32 % tile.column_threads != 0) return;  // rows of threads would straddle warps
    if (many() == (tile.chunks > 2) && (!many() || tile.threads() == kMaxThreads)) share_blocks();
    tile_ = tile;
    if (product_ || tile.chunks <= 2) share_steps();
    tile_ = tile;
    if (turns && tile.threads() == kMaxThreads) turn_rows();
    tile_ = tile;
  }

  void offer(const Memory& memory) {
    best_.offer(tile_, estimate(target_, problem_, tile_, memory));
  }
  Memory memory() const {
    return {.bytes = problem_.step_bytes(tile_), .bank_rows = bank_rows(problem_, tile_)};
  }

  // Parts of the reduction in blocks of their own. Many sums take copies of fewer steps, more of
  // them under way.
  void share_blocks() {
    const GpuProblem& p = problem_;
    tile_.places = many() ? 4 : 3;
    for (const std::int64_t usual : {steps_, 2 * steps_}) {
      const std::int64_t steps = many() ? std::min<std::int64_t>(usual, 16) : usual;
      if (steps > steps_ && !(short_sum(p) && p.reduce % steps == 0)) continue;
      tile_.steps = steps;
      const Memory used = memory();
      for (const std::int64_t parts : kGpuParts) {
        if (parts > 1 && many()) break;
        tile_.parts = parts;
        if (!refuse_parts(p, steps, 1, parts) && p.reduce / parts % steps == 0) offer(used);
        if (parts == 1 && p.reduce % steps != 0) offer(used);
      }
    }
  }

  // Groups of threads share the steps between copies.
  void share_steps() {
    for (const std::int64_t groups : kGpuGroups) {
      const std::int64_t threads = tile_.group_threads() * groups;
      if (groups == 1 || groups > 8 || threads > most_threads_ ||
          (many() && threads != kMaxThreads))
        continue;
      if (tile_.group_threads() % 32 != 0) continue;  // a warp would belong to two of them
      tile_.groups = groups;
      tile_.steps = groups * (problem_.taps > 1 ? 4 : 8);
      for (const std::int64_t places : {2, 3}) {
        tile_.places = places;
        const bool refused = refuse_groups(problem_, tile_.steps, groups) != nullptr;
        if (!refused && (places == 2 || product_)) offer(memory());
      }
      tile_.groups = 1;
    }
  }

  // ... and each group copies its own, with the left operand turned round. Below so many columns,
  // copies of single elements cost more than they save; small tiles are for one wave of blocks, and
  // parts of few steps do not pay for another kernel (H200, `bench --op matmul:M=128,...`).
  void share_own_steps() {
    constexpr std::int64_t kChunks = 3, kColumns = 72, kPartSteps = 384;
    if (tile_.chunks != kChunks || tile_.column_length() < kColumns ||
        (!many() && tiles() > target_.cores))
      return;
    const std::int64_t each_group = tile_.group_threads();
    tile_.row_lanes = kGpuRowLanes;
    tile_.own = true;
    for (const std::int64_t threads : {kMaxThreads, kMaxThreads / 2 * 3}) {
      tile_.groups = threads / each_group;
      if (threads > target_.gpu.block_threads || threads % each_group != 0 || tile_.groups > 8 ||
          tile_.groups < 2)
        continue;
      for (const std::int64_t each : {8, 4}) {
        tile_.steps = tile_.groups * each;
        tile_.places = each == 8 ? 3 : 4;
        if (refuse_groups(problem_, tile_.steps, tile_.groups) || (each == 4 && each_group != 32))
          continue;
        const Memory used = memory();
        for (const std::int64_t parts : kGpuParts) {
          if (parts > 1 &&
              (problem_.reduce / parts < kPartSteps || tiles() * parts > target_.cores))
            break;
          tile_.parts = parts;
          if (!refuse_parts(problem_, tile_.steps, tile_.groups, parts)) offer(used);
        }
        tile_.parts = 1;
      }
    }
  }

  // The left operand turned round: large tiles, one for each multiprocessor, or several waves of
  // usual ones, of which two lie beside each other.
  void turn_rows() {
    if (tile_.sums() % kUsualSums != 0 || many() != (tiles() <= target_.cores)) return;
    tile_.row_lanes = kGpuRowLanes;
    tile_.steps = many() ? 8 : 32;
    tile_.places = many() ? 4 : 2;
    if (problem_.reduce % tile_.steps == 0) offer(memory());
  }

  const target::Target& target_;
  const GpuProblem& problem_;
  std::int64_t lanes_, most_threads_, least_threads_ = 1;
  std::int64_t steps_;  // between copies
  bool product_;        // of two matrices
  std::int64_t most_sums_;
  Cheapest<GpuTile> best_;
  GpuTile tile_;
};

}  // namespace

GpuTile choose_gpu_tile(const target::Target& t, const GpuProblem& p, std::int64_t lanes) {
  return TileChoice(t, p, lanes).run();
}

}  // namespace tessera::space
