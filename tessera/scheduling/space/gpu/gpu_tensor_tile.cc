#include <algorithm>
#include <cmath>

#include "tessera/scheduling/space/gpu/gpu_block.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/gpu/gpu_tensor.h"
#include "tessera/scheduling/space/gpu/gpu_tile.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kMaxWarps = 16;  // of a block
// Cycles of an H200, fitted to the times of 40 tiles of nine products and convolutions (`tessera
// bench --op SPEC --schedule FILE --target cuda`) with an error of 13 %, besides its row. The runs
// were not kept. The rates follow the rows of other machines (beside_h200).
constexpr double kProducts = 1100;     // of f16 that a multiprocessor adds in a cycle (mma.sync),
constexpr double kSharedBytes = 90;    // that it reads in a cycle,
constexpr double kCopiedBytes = 30;    // that reach it from the L2,
constexpr double kStoredBytes = 13.6;  // and that it stores
constexpr double kStep = 180;          // barrier and addresses,
constexpr double kWait = 140;          // for copies, shared by those that are under way,
constexpr double kCopy = 7.2;          // of a thread, for each vector that it copies
constexpr double kMixed = 0.03;        // of what should overlap
constexpr double kIdle = 0.4;          // of the speed, that is left where no warp is beside another
constexpr double kLaunch = 1850;       // of another kernel
constexpr std::int64_t kLeastSteps = 32;  // what is chosen without measuring
// Of windows that are copied whole. Among 523 tiles of seven convolutions that were timed, the best
// by the estimate were 8 % slower than the fastest.
constexpr std::int64_t kMostTaps = 9, kLeastWarps = 2, kMostPipelineStages = 3;

// Rows of shared memory that the rows of a block take.
std::int64_t copied_rows(const TensorProblem& p, const TensorTile& t) {
  const auto reach = [&](std::int64_t n, std::int64_t step, std::int64_t beyond) {
    return (n - 1) * step + 1 + (t.whole_windows ? beyond : 0);
  };
  return reach(t.outer_warps, p.outer_step, p.outer_reach) *
         reach(t.rows(), p.row_step, p.row_reach);
}
// Of a window, that are in shared memory at once.
std::int64_t taps_at_once(const TensorProblem& p, const TensorTile& t) {
  return t.whole_windows ? p.taps : 1;
}
std::int64_t copied_columns(const TensorProblem& p, const TensorTile& t) {
  return t.columns() * taps_at_once(p, t);
}

GpuBlock block_of(const target::Target& target, const TensorProblem& p, const TensorTile& t) {
  const std::int64_t apart = p.planes > 1 ? t.warp_rows * t.warp_columns / target.gpu.warp : 0;
  return {.threads = t.warps() * target.gpu.warp,
          .registers = t.registers() + apart,
          .shared_bytes = tensor_shared_bytes(p, t)};
}

}  // namespace

std::int64_t tensor_shared_bytes(const TensorProblem& p, const TensorTile& t) {
  // Whichever way round an operand lies, the padding of its rows is at most this.
  const auto operand = [&](std::int64_t side) {
    const std::int64_t rows = std::max(side, t.steps);
    return (side * t.steps * p.bytes + rows * kMmaPad + 127) / 128 * 128;
  };
  return t.pipeline_stages * (operand(copied_rows(p, t)) + operand(copied_columns(p, t)));
}

const char* refuse_tensor_tile(const target::Target& target, const TensorProblem& p,
                               const TensorTile& t) {
  if (t.rows() - kMmaSide >= p.row || t.columns() - kMmaSide >= p.column ||
      t.steps - p.depth >= p.reduce || t.outer_warps > p.outer)
    return "more than the axis has";
  if (const char* reason =
          refuse_gpu_block(target, block_of(target, p, t), kMaxWarps * target.gpu.warp))
    return reason;
  // Parts must be of equal length and made of whole steps.
  if (t.split_k > 1 &&
      (p.reduce % (t.split_k * t.steps) != 0 || p.reduce / t.split_k * p.taps < 2 * t.steps))
    return "parts of the sum are not whole steps";
  if (t.whole_windows && p.taps == 1) return "windows of one element";
  if (t.whole_windows && p.row_reach + p.outer_reach == 0) return "windows share nothing";
  return nullptr;
}

double estimate_tensor_cycles(const target::Target& target, const TensorProblem& p,
                              const TensorTile& t) {
  const target::GpuLimits& gpu = target.gpu;
  const auto as = [](std::int64_t n) { return static_cast<double>(n); };
  const double cores = target.cores;
  const double blocks = as(p.batch * t.split_k) * blocks_of(p.outer, t.outer_warps) *
                        blocks_of(p.row, t.rows()) * blocks_of(p.column, t.columns());
  const double resident = resident_gpu_blocks(
      target, block_of(target, p, t), std::floor(as(gpu.core_threads) / as(t.warps() * gpu.warp)));
  const double waves = std::ceil(blocks / (cores * resident));
  const double at_once = std::min(resident, std::ceil(blocks / cores));
  const double scale = as(p.bytes) / 2;  // f32 takes twice, bytes half
  // Each quarter of a multiprocessor multiplies for its own warps.
  const double busy = std::min(1.0, at_once * as(t.warps()) / 8);
  const double taps = as(taps_at_once(p, t));
  const std::int64_t copied = (copied_rows(p, t) + copied_columns(p, t)) * t.steps * p.bytes;
  const auto rate = [&](double fitted, double target::Rates::*of) {
    return fitted * beside_h200(target, of);
  };
  const double copied_bytes = rate(kCopiedBytes, &target::Rates::l2_bytes_per_cycle);
  const double products =
      at_once * taps * as(t.all_rows() * t.columns() * t.steps) * scale /
      (rate(kProducts, &target::Rates::mma_per_cycle) * (kIdle + (1 - kIdle) * busy));
  const double reads = at_once * taps * as(t.warps() * (t.warp_rows + t.warp_columns) * t.steps) *
                       as(p.bytes) / rate(kSharedBytes, &target::Rates::shared_bytes_per_cycle);
  const double copies = at_once * as(copied) / copied_bytes;
  const double vectors = blocks_of(copied / 16, t.warps() * gpu.warp);
  const double step = std::max({products, reads, copies}) + kMixed * (products + reads + copies) +
                      kStep + kWait / as(t.pipeline_stages - 1) + kCopy * vectors;
  const double steps = blocks_of(p.reduce / t.split_k, t.steps) * as(p.taps) / taps;
  const double stores = at_once * as(t.all_rows() * t.columns()) * (t.split_k > 1 ? 4 : 2) /
                        rate(kStoredBytes, &target::Rates::store_bytes_per_cycle);
  // Nothing is multiplied while the first windows arrive.
  const double first = t.whole_windows ? copies : 0;
  const double start = gpu_rate(target, &target::Rates::dispatch_cycles) +
                       gpu_rate(target, &target::Rates::block_start_cycles);
  double out = waves * (start + first + steps * step + stores);
  if (t.split_k > 1) {
    out += kLaunch + as(p.batch * p.outer * p.row * p.column) * as(4 * t.split_k + 2) /
                         (cores * copied_bytes);
  }
  return out;
}

TensorTile choose_tensor_tile(const target::Target& target, const TensorProblem& p) {
  const TensorTile least{.steps = p.depth};
  Cheapest<TensorTile> tiles(least, estimate_tensor_cycles(target, p, least));
  for (const std::int64_t warp_rows : {16, 32, 64}) {
    for (const std::int64_t warp_columns : {16, 32, 64}) {
      for (const std::int64_t row_warps : {1, 2, 4}) {
        for (const std::int64_t column_warps : {1, 2, 4}) {
          for (const std::int64_t steps : {p.depth, 2 * p.depth, 4 * p.depth}) {
            for (const std::int64_t pipeline_stages : {2, 3, 4}) {
              for (const std::int64_t split_k : {1, 2, 3, 4, 6, 8, 12, 16}) {
                for (const std::int64_t outer_warps : {1, 2, 4, 7}) {
                  TensorTile t{warp_rows, warp_columns,    row_warps, column_warps,
                               steps,     pipeline_stages, split_k,   outer_warps};
                  if (steps < std::min(kLeastSteps, p.reduce)) continue;
                  if (t.warps() * target.gpu.warp > kGpuThreads || refuse_tensor_tile(target, p, t))
                    continue;
                  // Windows with steps copy what they leave out.
                  if (p.outer % outer_warps == 0 && (outer_warps == 1 || p.outer_step == 1))
                    tiles.offer(t, estimate_tensor_cycles(target, p, t));
                  t.whole_windows = true;
                  if (p.taps > kMostTaps || t.warps() < kLeastWarps ||
                      pipeline_stages > kMostPipelineStages || refuse_tensor_tile(target, p, t))
                    continue;
                  tiles.offer(t, estimate_tensor_cycles(target, p, t));
                }
              }
            }
          }
        }
      }
    }
  }
  return tiles.best();
}

}  // namespace tessera::space
