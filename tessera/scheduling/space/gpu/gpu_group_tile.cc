#include <algorithm>
#include <cmath>

#include "tessera/lang/ir/shared_places.h"
#include "tessera/scheduling/space/gpu/gpu_block.h"
#include "tessera/scheduling/space/gpu/gpu_group.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kRowBytes = 128;  // of a copy: 64 elements of two bytes
constexpr std::int64_t kSteps = 64;
constexpr std::int64_t kBanks = 32;
constexpr std::int64_t kMaxThreads = 512;
constexpr double kMostBlocks = 4;  // of a multiprocessor
// Cycles of an H200, by the times of 50 tiles of eleven products.
constexpr double kProducts = 1750;   // that a multiprocessor adds in a cycle,
constexpr double kCopiedBytes = 66;  // that reach it from the L2,
constexpr double kStoredBytes = 20;  // and that it stores
constexpr double kStart = 1400;      // of a block, until the first products
constexpr double kStep = 130;        // barrier and addresses,
constexpr double kPlace = 30;        // and for each place that six are more than there are
constexpr double kNoOverlap = 300;   // with three places a product ends before the next begins
constexpr double kAlone = 0.85;      // of the speed, where a multiprocessor has one group
constexpr double kLaunch = 2200;     // of another kernel, that adds up parts
constexpr std::int64_t kMostPlaces = 6;
// Of products in parts, by the times of 40 tiles of nine:
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
  const double blocks =
      as(p.batch * t.parts) * blocks_of(p.row, t.rows()) * blocks_of(p.column, t.all_columns());
  const double resident = resident_gpu_blocks(target, block_of(p, t), kMostBlocks);
  const double waves = std::ceil(blocks / (target.cores * resident));
  const double at_once = std::min(resident, std::ceil(blocks / target.cores));
  const double busy = at_once * as(t.threads()) > 128 ? 1 : kAlone;
  const double taps = as(p.planes > 1 ? p.taps : 1);  // of a step
  const double products =
      at_once * taps * as(t.rows() * t.all_columns() * kSteps) / (kProducts * busy);
  const double copies =
      at_once * as(p.planes * (t.rows() + t.all_columns()) * kRowBytes) / kCopiedBytes;
  // Every group reads its own rows and columns for each product.
  const std::int64_t sides =
      t.rows() * t.column_groups + t.all_columns() * t.row_groups * t.row_tiles;
  const double reads = p.planes > 1 ? at_once * taps * as(sides * kRowBytes) / kReadBytes : 0;
  const double apart = p.planes > 1 ? at_once * as(t.rows() * t.all_columns()) / kAdded : 0;
  const std::int64_t few = p.planes > 1 ? 2 : 3;  // places that let nothing overlap
  const double step = std::max({products, copies, reads}) + kStep +
                      kPlace * as(kMostPlaces - t.places) + apart +
                      (t.places > few ? 0 : kNoOverlap);
  const double steps = blocks_of(p.reduce / t.parts, kSteps) * as(p.taps) / taps;
  const std::int64_t stored = t.parts > 1 ? 4 : 2;
  const double stores = at_once * as(t.rows() * t.all_columns() * stored) / kStoredBytes;
  const double once = waves * (kStart + steps * step + stores);
  if (t.parts == 1) return once;
  const double added = as(p.batch * p.row * p.column) * as(4 * t.parts + 2);
  return once + kLaunch + added / (kCopiedBytes / 8 * target.cores);
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
