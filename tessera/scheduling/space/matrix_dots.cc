#include <algorithm>
#include <bit>

#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/space/contraction_tiling.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/pack.h"
#include "tessera/scheduling/space/share.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kManyVectors = 16;
// What LLVM keeps for a vector of columns, beside the sums, where rows are broadcast: that of this
// step, that of the next one, which it loads ahead, and one of the epilogue. With less it spills
// sums in every step.
constexpr std::int64_t kVectorRegisters = 3;
// Sums that tile registers hold at once, and rows that are worth a tile.
constexpr std::int64_t kSumTiles = 4, kLeastTileRows = 4;

constexpr int kNarrowest = 4;

// Whether what vectors leave over is nothing or, of many vectors, a shorter one; else it is a loop.
// Few columns take narrower vectors: as one network measured, wider ones speed their kernels up by
// a fifth, and slow its others down.
bool leaves_a_vector(int lanes, std::int64_t columns) {
  const auto rest = static_cast<std::uint64_t>(columns % lanes);
  return rest == 0 ||
         (columns >= kManyVectors * lanes && rest >= kNarrowest && std::has_single_bit(rest));
}

// The widest vectors that leave no loop, where such exist.
int whole_lanes(int widest, std::int64_t columns) {
  for (int lanes = widest; lanes >= kNarrowest; lanes /= 2) {
    if (leaves_a_vector(lanes, columns)) return lanes;
  }
  return widest;
}

// The sum adds wide(a) * wide(b) and nothing around it.
bool is_plain_product(const Stage& s, DType wide) {
  const auto* product = s.op.values[0].as<ir::Binary>();
  if (!product || product->op != ir::BinaryOp::kMul) return false;
  const auto widened = [&](const ir::Expr& e) {
    const auto* cast = e.as<ir::Cast>();
    return cast && cast->type.dtype == wide && cast->value.as<ir::Load>();
  };
  return widened(product->a) && widened(product->b);
}

// Some dimension runs along `axis` and nothing else.
bool indexed_by(const Access& access, std::size_t axis) {
  return std::any_of(access.indices.begin(), access.indices.end(),
                     [&](const Index& i) { return i.single_axis() == static_cast<int>(axis); });
}

bool plain(const Access& access) {
  return std::all_of(access.indices.begin(), access.indices.end(), [](const Index& i) {
    return i.single_axis() >= 0 || (i.terms.empty() && i.irregular.empty());
  });
}

// The most elements of a group that divide the sum, up to `most`; 0: it has no whole groups.
std::int64_t even_depth(std::int64_t extent, std::int64_t most, std::int64_t group) {
  for (std::int64_t depth = most; depth >= group; depth -= group) {
    if (extent % depth == 0) return depth;
  }
  return 0;
}

// Time of the products of a column of tiles, in that of a row: short tiles take as long as half of
// a whole one, and tiles of another shape at the end have to be configured. Chosen by timing on
// Sapphire Rapids; the runs were not kept, and no row of a machine has these numbers yet.
double tile_time(std::int64_t rows, std::int64_t tile) {
  constexpr double kStart = 4.5, kLeast = 12, kConfigure = 6;
  const auto time = [&](std::int64_t r) {
    return r == 0 ? 0.0 : std::max(kLeast, kStart + static_cast<double>(r));
  };
  const bool configures = rows > 2 * tile && rows % tile != 0;
  return static_cast<double>(rows / tile) * time(tile) + time(rows % tile) +
         (configures ? kConfigure : 0);
}

// The height of tiles that takes the least time for all rows.
std::int64_t best_tile_rows(std::int64_t rows, std::int64_t most) {
  std::int64_t best = std::min(rows, most);
  for (std::int64_t h = best; h >= kLeastTileRows; --h) {
    if (tile_time(rows, h) < tile_time(rows, best)) best = h;
  }
  return best;
}

// The last axis that is summed over is one that has several elements.
Contraction with_long_depth(const Stage& stage, Contraction c) {
  std::stable_partition(c.reduce.begin(), c.reduce.end(),
                        [&](std::size_t r) { return stage.extent(r) == 1; });
  return c;
}

class DotWriter {
 public:
  DotWriter(Context& context, const Contraction& c, const Nest& nest,
            const target::MatrixInstruction& instruction)
      : context_(context),
        product_(with_long_depth(context.stage(c.stage), c)),
        nest_(nest),
        instruction_(instruction),
        group_(instruction.group()),
        tiles_(instruction.operands == target::Operands::kTileRegisters),
        stage_(context.stage(c.stage)),
        nest_stage_(context.stage(nest.stage)),
        self_(nest.stage == c.stage),
        lanes_(tiles_ ? instruction.n
                      : whole_lanes(context.lanes(instruction.sums), stage_.extent(c.vector))) {}

  // The operand as it is, or as a copy of it will be, has its groups side by side.
  bool legal() const {
    if (stage_.dtype() != instruction_.sums || !is_plain_product(stage_, instruction_.sums))
      return false;
    const std::size_t k = product_.reduce.back();
    // What is left over of a vector costs more than it saves unless there are many whole ones.
    const std::int64_t columns = stage_.extent(product_.vector);
    if (columns < lanes_ ||
        (!tiles_ && !leaves_a_vector(lanes_, columns) && columns < kManyVectors * lanes_))
      return false;
    if (stage_.extent(k) < group_ || stage_.extent(k) % group_ != 0) return false;
    if (product_.a.buffer == product_.b.buffer || !indexed_by(product_.b, k)) return false;
    if (!(b_constant() || (plain(product_.b) && row_extent(stage_, product_) >= 4)) ||
        !indexed_by(product_.b, product_.vector))
      return false;
    if (tiles_) return product_.a.strides[k] == 1 && product_.row >= 0 && fills_tiles();
    return product_.a.strides[k] == 1 || packs_a();
  }

  void run() {
    if (tiles_) {
      choose_tiles();
    } else {
      choose();
    }
    for (Pack& p : packs_) write_pack(context_, &p, false);
    write_loops();
    context_.done[product_.stage] = true;
    context_.done[nest_.stage] = true;
  }

 private:
  bool b_constant() const { return context_.analysis.constant(product_.b.buffer); }
  bool packs_a() const {
    if (product_.row < 0) return false;
    const auto row = static_cast<std::size_t>(product_.row);
    if (!indexed_by(product_.a, product_.reduce.back()) || !indexed_by(product_.a, row))
      return false;
    return context_.analysis.constant(product_.a.buffer) || plain(product_.a);
  }
  std::string nest_axis(std::size_t axis) const { return nest_stage_.axis_name(nest_.axis[axis]); }

  bool fills_tiles() const {
    const std::int64_t depth = stage_.extent(product_.reduce.back());
    return row_extent(stage_, product_) >= kLeastTileRows &&
           even_depth(depth, instruction_.k, group_) * 4 >= instruction_.k;
  }

  // Tiles of sums: along the rows, along another axis of rows where a row is short, and along the
  // columns.
  void choose_tiles() {
    const std::string& name = stage_.op.name;
    const std::int64_t extent = row_extent(stage_, product_), most = instruction_.m;
    const auto counts = [] { return std::vector<std::int64_t>{1, 2, 3, 4}; };
    const auto refusal = [&](std::int64_t n) {
      return row_tiles_ * lines_ * n > kSumTiles ? "more sums than tile registers" : nullptr;
    };
    tile_rows_ = context_.chooser.number(
        name, "tile_rows", PointKind::kTile, best_tile_rows(extent, most), [&] {
          std::vector<std::int64_t> out;
          for (std::int64_t h = std::min(extent, most); h >= kLeastTileRows; h -= 2)
            out.push_back(h);
          return out;
        });
    row_tiles_ = context_.chooser.number(name, "row_tiles", PointKind::kTile,
                                         extent > tile_rows_ ? 2 : 1, counts, refusal);
    if (!product_.rows.empty()) {
      const bool several = row_tiles_ == 1 && stage_.extent(product_.rows.back()) > 1;
      lines_ = context_.chooser.number(name, "lines", PointKind::kTile, several ? 2 : 1, counts,
                                       refusal);
    }
    const std::int64_t tiles = parts_of(stage_.extent(product_.vector), lanes_);
    vectors_ = context_.chooser.number(name, "column_tiles", PointKind::kTile,
                                       std::min(tiles, kSumTiles / (row_tiles_ * lines_)), counts,
                                       refusal);
    rows_ = row_tiles_ * tile_rows_;
    steps_ = even_depth(stage_.extent(product_.reduce.back()), instruction_.k, group_) / group_;
    choose_order(bytes_of(product_.a.buffer) > bytes_of(product_.b.buffer));
    packs_.push_back(make_pack(context_, product_, product_.b, product_.vector, columns(), -1, 0,
                               !b_constant(), group_));
    choose_prefetch();
  }

  // Weights come from farther away than L2 once, for the first of several tiles of rows: between
  // two runs, a model reads more of them than fits.
  void choose_prefetch() {
    const std::int64_t near = tiles_ ? context_.target.l1_bytes : context_.l2_bytes() / 4;
    const bool far =
        !rows_outside_ && b_constant() && bytes_of(product_.b.buffer) > static_cast<double>(near);
    prefetch_ = context_.chooser.flag(stage_.op.name, "prefetch", PointKind::kCache, far);
  }

  // All columns stay in L2: rows outside then read and write memory as it lies. Many weights for
  // few tiles are better fetched panel by panel.
  bool reads_all_columns() const {
    constexpr std::int64_t kFewTiles = 32;
    const double bytes = bytes_of(product_.b.buffer);
    const auto l2 = static_cast<double>(context_.l2_bytes());
    const bool fetched =
        4 * bytes > l2 && parts_of(row_extent(stage_, product_), rows_) <= kFewTiles;
    return product_.rows.empty() && 2 * bytes <= l2 && !fetched;
  }

  static double bytes_of(const ir::Buffer& buffer) {
    return static_cast<double>(buffer.size()) * size_bytes(buffer->dtype);
  }

  void choose_order(bool rows_outside) {
    static constexpr const char* kOrders[] = {"columns", "rows"};
    rows_outside_ = context_.chooser.word(stage_.op.name, "order", PointKind::kOrder,
                                          rows_outside ? 1 : 0, kOrders) == 1;
  }

  void choose() {
    std::int64_t depth = 1;
    for (const std::size_t r : product_.reduce) depth *= stage_.extent(r);
    bool pack_a = product_.a.strides[product_.reduce.back()] != 1;
    if (!pack_a && packs_a() && row_extent(stage_, product_) >= 4)
      pack_a = context_.chooser.flag(stage_.op.name, "pack_a", PointKind::kCache, false);
    const TileRequest request{.rows = row_extent(stage_, product_),
                              .columns = stage_.extent(product_.vector),
                              .depth = parts_of(depth, group_),
                              .lanes = lanes_,
                              .packed = false,
                              .per_vector = context_.core().lane_operands ? 1 : kVectorRegisters};
    // Panels of one row are none.
    const RegisterTile tile = choose_tile_of(
        context_, stage_.op.name, request, choose_tile(request, context_.target),
        [&](const RegisterTile& t) {
          return t.rows * whole_vectors(t) <= limits::kDots && (t.rows > 1 || !pack_a);
        });
    rows_ = tile.rows;
    vectors_ = whole_vectors(tile);
    steps_ = choose_steps();
    if (product_.row >= 0) {
      choose_order(reads_all_columns());
      choose_prefetch();
    }
    packs_.push_back(make_pack(context_, product_, product_.b, product_.vector, columns(), -1, 0,
                               !b_constant(), group_));
    if (pack_a) {
      packs_.push_back(make_pack(context_, product_, product_.a,
                                 static_cast<std::size_t>(product_.row), rows_, -1, 0,
                                 !context_.analysis.constant(product_.a.buffer), group_));
    }
  }

  std::int64_t columns() const { return vectors_ * lanes_; }
  std::int64_t whole_vectors(const RegisterTile& tile) const {
    const std::int64_t columns = stage_.extent(product_.vector);
    const std::int64_t all =
        leaves_a_vector(lanes_, columns) ? parts_of(columns, lanes_) : columns / lanes_;
    return std::max<std::int64_t>(1, std::min<std::int64_t>(tile.vectors, all));
  }

  // Instructions along the reduction in one body: together they read a vector of `a`.
  std::int64_t choose_steps() const {
    const std::int64_t groups = stage_.extent(product_.reduce.back()) / group_;
    const std::int64_t preferred = groups % 4 == 0 ? 4 : groups % 2 == 0 ? 2 : 1;
    const auto refusal = [&](std::int64_t steps) {
      return steps * rows_ * vectors_ > limits::kDots ? "too many instructions in one body"
                                                      : nullptr;
    };
    return context_.chooser.number(
        stage_.op.name, "unroll", PointKind::kUnroll, preferred,
        [&] {
          std::vector<std::int64_t> out;
          for (const std::int64_t n : {1, 2, 4, 8}) {
            if (groups % n == 0) out.push_back(n);
          }
          return out;
        },
        refusal);
  }

  // Loops of the nest that stand for axes of extent 1.
  Loops unit_loops() const {
    std::vector<bool> mapped(nest_stage_.rank(), false);
    for (const std::size_t a : nest_.axis) mapped[a] = true;
    Loops out;
    for (const std::size_t i : product_.units) out.push_back(nest_axis(i));
    for (std::size_t i = 0; i < nest_stage_.rank(); ++i) {
      if (!mapped[i]) out.push_back(nest_stage_.axis_name(i));
    }
    return out;
  }

  // Splits the loop of the rows: the outer part, and what is inside of the tile.
  Loops split_rows(const std::string& name, const std::string& loop, bool whole) {
    Writer& w = context_.writer;
    if (!tiles_) return whole ? Loops{} : w.split(name, loop, {rows_});
    return whole ? w.split(name, loop, {tile_rows_})
                 : w.split(name, loop,
                           self_ ? std::vector<std::int64_t>{row_tiles_, tile_rows_}
                                 : std::vector<std::int64_t>{rows_});
  }

  void write_loops() {
    Writer& w = context_.writer;
    const std::string& nest = nest_stage_.op.name;
    std::vector<OuterLoop> outer;
    for (const auto* axes : {&product_.batch, &product_.columns}) {
      for (const std::size_t i : *axes) outer.push_back({nest_axis(i), stage_.extent(i)});
    }
    const Loops vector = self_ ? w.split(nest, nest_axis(product_.vector),
                                         {vectors_, static_cast<std::int64_t>(lanes_)})
                               : w.split(nest, nest_axis(product_.vector), {columns()});
    const std::int64_t extent = stage_.extent(product_.vector);
    const OuterLoop columns_loop{vector[0], parts_of(extent, columns())};
    if (!rows_outside_) outer.push_back(columns_loop);
    Loops tile;
    for (const std::size_t i : product_.rows) {
      if (lines_ == 1 || i != product_.rows.back()) {
        outer.push_back({nest_axis(i), stage_.extent(i)});
        continue;
      }
      const Loops lines = w.split(nest, nest_axis(i), {lines_});
      outer.push_back({lines[0], parts_of(stage_.extent(i), lines_)});
      tile.push_back(lines[1]);
    }
    if (product_.row >= 0) {
      const Loops row = split_rows(nest, nest_axis(static_cast<std::size_t>(product_.row)), false);
      outer.push_back({row[0], parts_of(row_extent(stage_, product_), rows_)});
      tile.insert(tile.end(), row.begin() + 1, row.end());
      if (!tiles_) w.unroll(nest, row[1]);
    }
    if (rows_outside_) outer.push_back(columns_loop);
    Loops order = unit_loops();
    for (const OuterLoop& l : outer) order.push_back(l.name);
    if (self_) {
      const Loops groups =
          w.split(nest, stage_.axis_name(product_.reduce.back()), {steps_, group_});
      finish(nest, std::move(order), tile, {vector[1], vector[2]}, groups);
    } else {
      order.insert(order.end(), tile.begin(), tile.end());
      order.push_back(vector[1]);
      w.reorder(nest, order);
      w.vectorize(nest, vector[1]);
    }
    outer = share_out(context_, nest, choose_sharing(context_, stage_.op.name, stage_.iterations()),
                      outer, outer.size());
    if (!self_) attach(outer.back().name);
  }

  // The contraction computes one tile at `loop` of the nest.
  void attach(const std::string& loop) {
    Writer& w = context_.writer;
    const std::string& name = stage_.op.name;
    w.compute_at(name, nest_stage_.op.name, loop);
    const Loops vector =
        w.split(name, stage_.axis_name(product_.vector), {static_cast<std::int64_t>(lanes_)});
    const Loops groups = w.split(name, stage_.axis_name(product_.reduce.back()), {steps_, group_});
    Loops order, tile;
    for (std::size_t i = 0; i < stage_.rank(); ++i) {
      const bool line = lines_ > 1 && i == product_.rows.back();
      if (line) tile.push_back(stage_.axis_name(i));
      if (i != product_.vector && static_cast<int>(i) != product_.row && !line)
        order.push_back(stage_.axis_name(i));
    }
    if (product_.row >= 0) {
      const std::string& row = stage_.axis_name(static_cast<std::size_t>(product_.row));
      const Loops parts = split_rows(name, row, true);
      tile.insert(tile.end(), parts.begin(), parts.end());
      if (!tiles_) {
        tile.push_back(row);
        w.unroll(name, row);
      }
    }
    finish(name, std::move(order), tile, vector, groups);
  }

  // Appends the reduction and the tile, its last loops one instruction.
  void finish(const std::string& name, Loops order, Loops tile, const Loops& vector,
              const Loops& groups) {
    Writer& w = context_.writer;
    for (std::size_t n = 0; n + 1 < product_.reduce.size(); ++n)
      order.push_back(stage_.axis_name(product_.reduce[n]));
    order.push_back(groups[0]);
    if (tiles_) {
      const std::string rows = tile.back();
      tile.pop_back();
      for (const std::string& loop : tile) w.unroll(name, loop);
      order.insert(order.end(), tile.begin(), tile.end());
      order.insert(order.end(), {vector[0], rows, vector[1], groups[1], groups[2]});
      w.reorder(name, order);
      w.unroll(name, vector[0]);
      w.vectorize(name, vector[1]);
      w.tensorize(name, rows, std::string(instruction_.name));
      if (prefetch_) w.prefetch(name, groups[0], packs_.front().name, 0);
      return;
    }
    if (prefetch_) w.prefetch(name, groups[0], packs_.front().name, 0);
    order.push_back(groups[1]);
    order.insert(order.end(), tile.begin(), tile.end());
    order.insert(order.end(), {vector[0], vector[1], groups[2]});
    w.reorder(name, order);
    w.unroll(name, groups[1]);
    w.unroll(name, vector[0]);
    w.tensorize(name, vector[1], std::string(instruction_.name));
  }

  Context& context_;
  Contraction product_;
  const Nest& nest_;
  const target::MatrixInstruction& instruction_;
  std::int64_t group_;  // products that one lane of an instruction adds up
  bool tiles_;
  const Stage& stage_;
  const Stage& nest_stage_;
  bool self_;
  int lanes_;
  std::int64_t rows_ = 1, vectors_ = 1, steps_ = 1;
  // Of tile registers: rows of one, their number along the row, rows of another axis.
  std::int64_t tile_rows_ = 1, row_tiles_ = 1, lines_ = 1;
  bool rows_outside_ = false, prefetch_ = false;
  std::vector<Pack> packs_;
};

}  // namespace

bool schedule_dots(Context& context, const Contraction& contraction, const Nest& nest) {
  for (const auto operands : {target::Operands::kTileRegisters, target::Operands::kLanes}) {
    const auto* instruction = target::find_matrix(
        context.target, operands, contraction.a.buffer->dtype, contraction.b.buffer->dtype);
    if (!instruction) continue;
    DotWriter writer(context, contraction, nest, *instruction);
    if (!writer.legal()) continue;
    writer.run();
    return true;
  }
  return false;
}

}  // namespace tessera::space
