#include "tessera/scheduling/space/tile.h"

#include <algorithm>

#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/vector_count.h"

namespace tessera::space {
namespace {

using target::Core;

std::int64_t registers_needed(std::int64_t rows, std::int64_t vectors, const TileRequest& r,
                              const Core& m) {
  const std::int64_t columns = vectors * r.per_vector;
  if (!m.lane_operands) return rows * vectors + columns + 1;
  const std::int64_t row_operands = r.packed ? (rows + r.lanes - 1) / r.lanes : rows;
  return rows * vectors + columns + row_operands;
}

double tile_cycles(double rows, double vectors, const TileRequest& r,
                   const target::Target& target) {
  const Core& m = target::core_of(target);
  const target::Rates& rates = target.rates;
  const double compute = std::max(rows * vectors / rates.fma_per_cycle, rates.fma_latency_cycles);
  const double scalars = m.lane_operands ? rows / r.lanes : rows;
  const double step = std::max(compute, (vectors + scalars) / rates.loads_per_cycle);
  return step * static_cast<double>(r.depth) + m.tile_overhead;
}

double total_cycles(std::int64_t rows, std::int64_t vectors, const TileRequest& r,
                    const target::Target& target) {
  const std::int64_t columns = vectors * r.lanes;
  const double row_rest = static_cast<double>(r.rows % rows);
  const auto column_rest = static_cast<double>(vectors_of(r.columns % columns, r.lanes));
  const auto row_tiles = static_cast<double>(r.rows / rows);
  const auto column_tiles = static_cast<double>(r.columns / columns);
  const auto row_count = static_cast<double>(rows);
  const auto vector_count = static_cast<double>(vectors);
  double total = row_tiles * column_tiles * tile_cycles(row_count, vector_count, r, target);
  if (row_rest > 0) total += column_tiles * tile_cycles(row_rest, vector_count, r, target);
  if (column_rest > 0) total += row_tiles * tile_cycles(row_count, column_rest, r, target);
  if (row_rest > 0 && column_rest > 0) total += tile_cycles(row_rest, column_rest, r, target);
  return total;
}

}  // namespace

RegisterTile choose_tile(const TileRequest& request, const target::Target& target) {
  const Core& m = target::core_of(target);
  RegisterTile best;
  double best_cycles = 0;
  // Registers to spare: loads of the next step start before the last product of this one.
  const std::int64_t limit = limits::registers_beside(target, request.packed ? 2 : 1);
  const std::int64_t max_vectors = (request.columns + request.lanes - 1) / request.lanes;
  const bool apart = !request.packed && m.lane_operands;
  const std::int64_t most_rows = apart ? m.scattered_rows : m.most_rows;
  for (std::int64_t rows = 1; rows <= std::min(most_rows, request.rows); ++rows) {
    // Panels are read by whole vectors.
    if (request.packed && m.lane_operands && rows > request.lanes && rows % request.lanes != 0)
      continue;
    for (std::int64_t vectors = 1; vectors <= std::min<std::int64_t>(8, max_vectors); ++vectors) {
      if (registers_needed(rows, vectors, request, m) > limit) continue;
      const double cycles = total_cycles(rows, vectors, request, target);
      // Near ties go to the tile with fewer loads per product.
      const double loads = static_cast<double>(vectors) +
                           static_cast<double>(rows) / static_cast<double>(request.lanes);
      const double score = cycles * (1 + 0.1 * loads / static_cast<double>(rows * vectors));
      if (best_cycles != 0 && score >= best_cycles) continue;
      best_cycles = score;
      best = {rows, vectors};
    }
  }
  return best;
}

RegisterTile choose_tile_of(Context& context, const std::string& stage, const TileRequest& request,
                            const RegisterTile& preferred,
                            const std::function<bool(const RegisterTile&)>& fits) {
  static constexpr const char* kRefusal = "such a tile does not fit the registers or the body";
  const auto legal = [&](std::int64_t rows, std::int64_t vectors) {
    return limits::fits_registers(context.target, rows, vectors) &&
           fits({.rows = rows, .vectors = vectors});
  };
  const Point* widths = context.chooser.listed(stage, "vectors");
  const auto legal_rows = [&](std::int64_t rows) -> const char* {
    const bool some = widths ? std::any_of(widths->values.begin(), widths->values.end(),
                                           [&](const auto& v) { return legal(rows, v[0]); })
                             : legal(rows, preferred.vectors);
    return some ? nullptr : kRefusal;
  };
  const std::int64_t rows = context.chooser.number(
      stage, "rows", PointKind::kTile, preferred.rows,
      [&] {
        std::vector<std::int64_t> out;
        for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}) {
          if (n <= request.rows) out.push_back(n);
        }
        return out;
      },
      legal_rows);
  const std::int64_t vectors = context.chooser.number(
      stage, "vectors", PointKind::kVector, preferred.vectors,
      [&] {
        std::vector<std::int64_t> out;
        for (std::int64_t n = 1; n <= 8; ++n) {
          if (n <= parts_of(request.columns, request.lanes) &&
              n * request.lanes <= schedule::kMaxVector)
            out.push_back(n);
        }
        return out;
      },
      [&](std::int64_t n) { return legal(rows, n) ? nullptr : kRefusal; });
  return {rows, vectors};
}

std::int64_t even_part(std::int64_t tiles, std::int64_t most) {
  if (tiles <= most) return tiles;
  for (std::int64_t n = most; 2 * n > most; --n) {
    if (tiles % n == 0) return n;
  }
  return parts_of(tiles, parts_of(tiles, most));
}

std::int64_t at_most(std::int64_t length, std::int64_t extent) {
  return std::max<std::int64_t>(1, std::min(length, extent));
}

}  // namespace tessera::space
