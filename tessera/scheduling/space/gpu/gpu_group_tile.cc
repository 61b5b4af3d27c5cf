#include <algorithm>
#include <cmath>

#include "tessera/lang/ir/shared_places.h"
#include "tessera/scheduling/space/gpu/gpu_block.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/gpu/gpu_group.h"

namespace tessera::space {
namespace {

// Cycles of an H200, fitted to the times of 50 tiles of eleven products (`tessera bench --op SPEC
// --schedule FILE --target cuda`), besides its row. The runs were not kept. The rates follow the
// rows of other machines (beside_h200).
constexpr double kProducts = 1750;   // of f16 that a multiprocessor adds in a cycle,
constexpr double kCopiedBytes = 66;  // and that reach it from the L2
constexpr double kStep = 130;        // barrier and addresses,
constexpr double kNoOverlap = 300;   // with three stages a product ends before the next begins
constexpr double kAlone = 0.85;      // of the speed, where a multiprocessor has one group
constexpr double kLaunch = 2200;     // of another kernel, that adds up parts
constexpr std::int64_t kMostPipelineStages = 6;
// Of products in parts, by the times of 40 tiles of nine, timed in the same way:
constexpr double kReadBytes = 108;  // of shared memory that products read in a cycle,
constexpr double kAdded = 64;       // sums of a step that it adds to those of all

GpuBlock block_of(const TensorProblem& p, const GroupTile& t) {
  const std::int64_t apart = p.planes > 1 ? t.row_tiles * t.columns / 2 : 0;
  return {.threads = t.threads(),
          .registers = t.registers() + apart,
          .shared_bytes = group_shared_bytes(p, t)};
}

}  // namespace

std::int64_t group_shared_bytes(const TensorProblem& p, const GroupTile& t) {
  // Columns side by side come in rows of 64.
  const std::int64_t columns = (t.all_columns() + 63) / 64 * 64;
  const bool staged = p.staged && t.split_k == 1;
  const std::int64_t sums =
      staged ? 4 * t.rows() * (t.all_columns() + kGpuBanks + kGpuStagedPad) : 0;
  return ir::shared_in_turn(t.pipeline_stages * p.planes * (t.rows() + columns) * kWgmmaRowBytes,
                            sums);
}

const char* refuse_group_tile(const target::Target& target, const TensorProblem& p,
                              const GroupTile& t) {
  if (t.rows() - 64 >= p.row || t.all_columns() - t.columns >= p.column ||
      (t.columns > 64 && t.columns - 32 >= p.column))
    return "more than the axis has";
  if (t.pipeline_stages < 3 && p.planes == 1) return "copies would meet products";
  if (t.column_groups > 1 && t.columns % 64 != 0) return "groups do not begin with a row of copies";
  if (const char* reason = refuse_gpu_block(target, block_of(p, t), target.gpu.block_threads))
    return reason;
  if (t.split_k > 1 &&
      (p.reduce % (t.split_k * p.depth) != 0 || p.reduce / t.split_k < 2 * p.depth))
    return "parts of the sum are not whole steps";
  return nullptr;
}

double estimate_group_cycles(const target::Target& target, const TensorProblem& p,
                             const GroupTile& t) {
  const auto as = [](std::int64_t n) { return static_cast<double>(n); };
  const auto rate = [&](double fitted, double target::Rates::*of) {
    return fitted * beside_h200(target, of);
  };
  const double copied_bytes = rate(kCopiedBytes, &target::Rates::l2_bytes_per_cycle);
  const double blocks =
      as(p.batch * t.split_k) * blocks_of(p.row, t.rows()) * blocks_of(p.column, t.all_columns());
  const double resident = resident_gpu_blocks(target, block_of(p, t), target.gpu.core_blocks);
  const double waves = std::ceil(blocks / (target.cores * resident));
  const double at_once = std::min(resident, std::ceil(blocks / target.cores));
  const double busy = at_once * as(t.threads()) > 128 ? 1 : kAlone;
  const double taps = as(p.planes > 1 ? p.taps : 1);  // of a step
  // Of a row of both operands: f32 takes twice as long for half as many elements, bytes half.
  const double products = at_once * taps * as(t.rows() * t.all_columns() * kWgmmaRowBytes / 2) /
                          (rate(kProducts, &target::Rates::wgmma_per_cycle) * busy);
  const double copies =
      at_once * as(p.planes * (t.rows() + t.all_columns()) * kWgmmaRowBytes) / copied_bytes;
  // Every group reads its own rows and columns for each product.
  const std::int64_t sides =
      t.rows() * t.column_groups + t.all_columns() * t.row_groups * t.row_tiles;
  const double read_bytes = rate(kReadBytes, &target::Rates::shared_bytes_per_cycle);
  const double reads = p.planes > 1 ? at_once * taps * as(sides * kWgmmaRowBytes) / read_bytes : 0;
  const double apart = p.planes > 1 ? at_once * as(t.rows() * t.all_columns()) / kAdded : 0;
  const std::int64_t few = p.planes > 1 ? 2 : 3;  // stages that let nothing overlap
  const double step = std::max({products, copies, reads}) + kStep +
                      gpu_rate(target, &target::Rates::barrier_cycles) *
                          as(kMostPipelineStages - t.pipeline_stages) +
                      apart + (t.pipeline_stages > few ? 0 : kNoOverlap);
  const double steps = blocks_of(p.reduce / t.split_k, p.depth) * as(p.taps) / taps;
  const std::int64_t stored = t.split_k > 1 ? 4 : p.bytes;
  const double stores = at_once * as(t.rows() * t.all_columns() * stored) /
                        gpu_rate(target, &target::Rates::store_bytes_per_cycle);
  // Until the first products: the block starts, and their operands arrive.
  const double start = gpu_rate(target, &target::Rates::block_start_cycles) +
                       gpu_rate(target, &target::Rates::line_latency_cycles);
  const double once = waves * (start + steps * step + stores);
  if (t.split_k == 1) return once;
  const double added = as(p.batch * p.row * p.column) * as(4 * t.split_k + 2);
  return once + kLaunch + added / (copied_bytes / 8 * target.cores);
}

GroupTile choose_group_tile(const target::Target& target, const TensorProblem& p) {
  Cheapest<GroupTile> tiles({}, estimate_group_cycles(target, p, {}));
  for (const std::int64_t row_groups : {2, 1}) {
    for (const std::int64_t column_groups : {1, 2}) {
      for (const std::int64_t row_tiles : {1, 2}) {
        for (const std::int64_t columns : {32, 48, 64, 96, 128, 192, 256}) {
          for (const std::int64_t pipeline_stages : {2, 3, 4, 6}) {
            for (const std::int64_t split_k : {1, 2, 3, 4, 6, 8}) {
              const GroupTile t{row_groups, column_groups,   row_tiles,
                                columns,    pipeline_stages, split_k};
              if (p.beside && columns > 32 && columns % 64 != 0) continue;
              if (refuse_group_tile(target, p, t)) continue;
              tiles.offer(t, estimate_group_cycles(target, p, t));
            }
          }
        }
      }
    }
  }
  return tiles.best();
}

}  // namespace tessera::space
