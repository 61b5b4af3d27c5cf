#include <algorithm>
#include <cmath>

#include "tessera/lang/ir/shared_places.h"
#include "tessera/scheduling/space/gpu/cost.h"
#include "tessera/scheduling/space/gpu/gpu_block.h"
#include "tessera/scheduling/space/gpu/gpu_group.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kRowBytes = 128;  // of a copy: 64 elements of two bytes
constexpr std::int64_t kSteps = 64;
constexpr std::int64_t kBanks = 32, kGroupThreads = 128;
constexpr std::int64_t kMaxThreads = 512;
constexpr double kMostBlocks = 4;  // of a multiprocessor
// Of the rate of the tensor cores, where a multiprocessor has one group; sums of a step that it
// adds to those of all in a cycle. By the times of 90 tiles of 20 products on an H200 (`bench --op
// SPEC
// --schedule FILE --target cuda`).
constexpr double kAlone = 0.85, kAdded = 64;

GpuBlock block_of(const TensorProblem& p, const GroupTile& t) {
  const std::int64_t apart = p.planes > 1 ? t.row_tiles * t.columns / 2 : 0;
  return {.threads = t.threads(),
          .registers = t.registers() + apart,
          .shared_bytes = group_shared_bytes(p, t)};
}

}  // namespace

std::int64_t group_shared_bytes(const TensorProblem& p, const GroupTile& t) {
  // Columns side by side come in rows of 64.
  const std::int64_t columns = (t.all_columns() + kSteps - 1) / kSteps * kSteps;
  const bool staged = p.staged && t.parts == 1;
  const std::int64_t sums = staged ? 4 * t.rows() * (t.all_columns() + kBanks + kStagedPad) : 0;
  return ir::shared_in_turn(t.places * p.planes * (t.rows() + columns) * kRowBytes, sums);
}

const char* refuse_group_tile(const target::Target& target, const TensorProblem& p,
                              const GroupTile& t) {
  if (t.rows() - 64 >= p.row || t.all_columns() - t.columns >= p.column ||
      (t.columns > 64 && t.columns - 32 >= p.column))
    return "more than the axis has";
  if (t.places < 3 && p.planes == 1) return "copies would meet products";
  if (t.column_groups > 1 && t.columns % 64 != 0) return "groups do not begin with a row of copies";
  if (const char* reason = refuse_gpu_block(target, block_of(p, t), kMaxThreads)) return reason;
  if (t.parts > 1 && (p.reduce % (t.parts * kSteps) != 0 || p.reduce / t.parts < 2 * kSteps))
    return "parts of the sum are not whole steps";
  return nullptr;
}

double estimate_group_cycles(const target::Target& target, const TensorProblem& p,
                             const GroupTile& t) {
  const auto as = [](std::int64_t n) { return static_cast<double>(n); };
  const target::Rates& rates = target.rates;
  const double blocks =
      as(p.batch * t.parts) * blocks_of(p.row, t.rows()) * blocks_of(p.column, t.all_columns());
  const double resident = resident_gpu_blocks(target, block_of(p, t), kMostBlocks);
  const auto [at_once, waves] = gpu_waves(target, blocks, resident);
  const double busy = at_once * as(t.threads()) > kGroupThreads ? 1 : kAlone;
  const bool planes = p.planes > 1;
  const double taps = as(planes ? p.taps : 1);  // of a step
  const double products =
      at_once * taps * as(t.rows() * t.all_columns() * kSteps) / (rates.wgmma_per_cycle * busy);
  const double copies =
      at_once * as(p.planes * (t.rows() + t.all_columns()) * kRowBytes) / rates.l2_bytes_per_cycle;
  // Every group reads its own rows and columns for each product.
  const std::int64_t sides =
      t.rows() * t.column_groups + t.all_columns() * t.row_groups * t.row_tiles;
  const double reads =
      planes ? at_once * taps * as(sides * kRowBytes) / rates.shared_bytes_per_cycle : 0;
  const double apart = planes ? at_once * as(t.rows() * t.all_columns()) / kAdded : 0;
  // A product still reads its stage when the next one begins: one stage less is under way.
  const double step = pipeline_step_cycles(target, {products, copies, reads}, t.places - 2) + apart;
  const double steps = blocks_of(p.reduce / t.parts, kSteps) * as(p.taps) / taps;
  const std::int64_t stored = t.parts > 1 ? 4 : 2;
  const double stores =
      at_once * as(t.rows() * t.all_columns() * stored) / rates.store_bytes_per_cycle;
  const double once = waves * (rates.block_start_cycles + steps * step + stores);
  if (t.parts == 1) return once;
  return once + split_k_cycles(target, as(p.batch * p.row * p.column), as(t.parts));
}

GroupTile choose_group_tile(const target::Target& target, const TensorProblem& p) {
  Cheapest<GroupTile> tiles({}, estimate_group_cycles(target, p, {}));
  for (const std::int64_t row_groups : {2, 1}) {
    for (const std::int64_t column_groups : {1, 2}) {
      for (const std::int64_t row_tiles : {1, 2}) {
        for (const std::int64_t columns : {32, 48, 64, 96, 128, 192, 256}) {
          for (const std::int64_t places : {2, 3, 4, 6}) {
            for (const std::int64_t parts : {1, 2, 3, 4, 6, 8}) {
              const GroupTile t{row_groups, column_groups, row_tiles, columns, places, parts};
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
