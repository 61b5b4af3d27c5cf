#include "tessera/scheduling/space/contraction_tiling.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/reduction.h"
#include "tessera/scheduling/space/tile.h"
#include "tessera/scheduling/space/transform.h"

namespace tessera::space {
namespace {

bool is_served_front(const Context& context, std::size_t product) {
  const auto front = served_front(context);
  return front && front->product == product;
}

// Iterations of an axis that is unrolled whole.
constexpr std::int64_t kMaxShortAxis = 8;
// Elements of a word.
constexpr std::int64_t kMaxWord = 16;

// Words, what is taken out of them, scales and their products with zero points.
constexpr std::int64_t kUnpackRegisters = 4;

// Tiles that a panel of weights is used for, at most, where fetching it takes a noticeable part of
// the time.
constexpr std::int64_t kFetchedTiles = 32;

class Tiler {
 public:
  Tiler(Context& context, const Contraction& c, bool self)
      : context_(context),
        product_(c),
        stage_(context.stage(c.stage)),
        self_(self),
        core_(context.core()),
        a_constant_(context.analysis.constant(c.a.buffer)),
        b_constant_(context.analysis.constant(c.b.buffer)),
        depth_(points_of(stage_, c.reduce)),
        open_(open_decisions()),
        by_rows_(is_served_front(context, c.stage)) {}

  ContractionTiling run() {
    tiling_.lanes = context_.lanes(stage_.dtype());
    choose_copies();
    choose_tile_size();
    choose_block();
    choose_unroll();
    if (tiling_.block > 0) {
      choose_block_copies();
      choose_parts();
    } else {
      choose_order();
    }
    tiling_.prefetch =
        context_.chooser.number(name(), "prefetch", PointKind::kCache, preferred_prefetch(), [] {
          return std::vector<std::int64_t>{8, 32, 128, 288};
        });
    if (tiling_.prefetch > 0 && tiling_.unroll > 1) {
      tiling_.prefetch_steps =
          context_.chooser.flag(name(), "prefetch_steps", PointKind::kCache, streams());
    }
    if (tiling_.prefetch > 0) {
      // The first tile of a panel otherwise waits for all of it, and memory for the others.
      tiling_.prefetch_next = context_.chooser.flag(name(), "prefetch_next", PointKind::kCache,
                                                    b_constant_ && !core_.lane_operands);
    }
    choose_tail();
    tiling_.sharing = choose_sharing(context_, name(), 2 * stage_.iterations());
    return tiling_;
  }

 private:
  const std::string& name() const { return stage_.op.name; }
  static std::int64_t tile(const ContractionTiling& p) {
    return p.rows * parts_of(p.columns, p.lanes);
  }
  std::int64_t tile() const { return tile(tiling_); }

  // The panels of b come from L3, each for a few tiles. From memory they come no sooner for being
  // asked for.
  bool streams() const {
    if (!b_constant_ || tiling_.block > 0 || tiling_.unroll < 2) return false;
    double bytes = size_bytes(product_.b.buffer->dtype);
    for (const std::int64_t d : product_.b.buffer->shape) bytes *= static_cast<double>(d);
    return parts_of(row_extent(stage_, product_), tiling_.rows) *
                   points_of(stage_, product_.rows) <=
               core_.streamed_tiles &&
           bytes > static_cast<double>(context_.l2_bytes()) &&
           2 * bytes < static_cast<double>(context_.target.l3_bytes);
  }

  // Weights come from L3 or memory for every inference, page by page: hardware that fetches ahead
  // begins anew with each of them.
  std::int64_t preferred_prefetch() const {
    if (core_.lane_operands) return streams() ? core_.stream_steps : 0;
    if (!b_constant_ || depth_ < 32) return 0;
    double bytes = size_bytes(product_.b.buffer->dtype);
    for (const std::int64_t d : product_.b.buffer->shape) bytes *= static_cast<double>(d);
    const std::int64_t steps = line_products() / std::max<std::int64_t>(1, tile());
    return bytes > static_cast<double>(context_.l1_bytes()) ? std::max<std::int64_t>(8, steps) : 0;
  }

  // Multiply-adds in twice the time that a line takes to arrive, which is longer when others are
  // under way; in powers of two or halfway between, so that schedules do not follow every
  // measurement.
  std::int64_t line_products() const {
    const target::Rates& rates = context_.target.rates;
    const double products = 2 * rates.line_latency_cycles * rates.fma_per_cycle;
    std::int64_t power = 1;
    while (2 * static_cast<double>(power) <= products) power *= 2;
    const auto share = products / static_cast<double>(power);
    return share < 1.25 ? power : share < 1.75 ? power + power / 2 : 2 * power;
  }

  static bool plain(const Access& access) {
    return std::all_of(access.indices.begin(), access.indices.end(), [](const Index& i) {
      return i.single_axis() >= 0 || (i.terms.empty() && i.irregular.empty());
    });
  }

  // Copying pays when every element of the copy is used often enough.
  void choose_copies() {
    const bool same = product_.a.buffer == product_.b.buffer;
    const int producer = context_.analysis.producer(product_.a.buffer);
    const bool transform =
        producer >= 0 && is_transform(context_.stage(static_cast<std::size_t>(producer)));
    const std::int64_t columns = stage_.extent(product_.vector);
    if (!a_constant_ && !same && !transform && plain(product_.a) && product_.rows.empty() &&
        row_extent(stage_, product_) >= 4) {
      const bool pays = core_.lane_operands &&
                        columns * points_of(stage_, product_.columns) >= 48 && depth_ >= 16;
      tiling_.pack_a = context_.chooser.flag(name(), "pack_a", PointKind::kCache, pays);
    }
    if (!b_constant_ && !same && plain(product_.b) && product_.columns.empty()) {
      const bool contiguous = product_.b.strides[product_.vector] == 1;
      const bool pays = row_extent(stage_, product_) * points_of(stage_, product_.rows) >= 4 &&
                        (core_.lane_operands || !contiguous || !b_spans_little());
      const bool open = contiguous && row_extent(stage_, product_) >= 2;
      tiling_.pack_b =
          open ? context_.chooser.flag(name(), "pack_b", PointKind::kCache, pays) : pays;
    }
  }

  // The rows of b that a panel takes its columns from lie within a part of L2.
  bool b_spans_little() const {
    const std::int64_t step = product_.b.strides[product_.reduce.back()];
    return product_.reduce.size() == 1 &&
           4 * step * depth_ * size_bytes(product_.b.buffer->dtype) <= context_.l2_bytes();
  }

  void choose_tile_size() {
    const std::int64_t columns = stage_.extent(product_.vector);
    const bool side_by_side =
        tiling_.pack_a || a_constant_ ||
        (product_.row >= 0 && product_.a.strides[static_cast<std::size_t>(product_.row)] == 1);
    const TileRequest request{.rows = row_extent(stage_, product_),
                              .columns = columns,
                              .depth = depth_,
                              .lanes = tiling_.lanes,
                              .packed = side_by_side,
                              .per_vector = unpacks() ? kUnpackRegisters : 1};
    const RegisterTile tile = choose_tile(request, context_.target);
    const RegisterTile choice =
        choose_tile_of(context_, name(), request, tile,
                       [&](const RegisterTile& t) { return fits_with_some_block(t, columns); });
    tiling_.rows = choice.rows;
    tiling_.columns = at_most(choice.vectors * tiling_.lanes, columns);
  }

  // Vectors of columns are taken from narrower storage.
  bool unpacks() const {
    return b_constant_ && (!product_.scales.empty() || !product_.b.uses(product_.reduce.back()));
  }

  // Whether anything that is decided later leaves the code of this tile within its limit.
  bool fits_with_some_block(const RegisterTile& tile, std::int64_t columns) const {
    ContractionTiling p = tiling_;
    p.rows = tile.rows;
    p.columns = at_most(tile.vectors * p.lanes, columns);
    if (fits(p, least_body(p), Known::kNothing)) return true;
    if (product_.row < 0 || !open_.blocks || by_rows_) return false;
    const auto& blocks = open_.blocks->values;
    p.block_axis = static_cast<int>(longest());
    return std::any_of(blocks.begin(), blocks.end(), [&](const auto& value) {
      p.block = value[0];
      return p.block > 0 && fits(p, least_body(p), Known::kNothing);
    });
  }

  // The longest reduce axis is cut when the panel of a tile does not stay in L1.
  void choose_block() {
    if (product_.row < 0 || by_rows_) return;
    const std::int64_t extent = stage_.extent(longest());
    const std::int64_t preferred = preferred_block(extent);
    const auto with_block = [&](std::int64_t block) {
      ContractionTiling p = tiling_;
      p.block = block;
      p.block_axis = block > 0 ? static_cast<int>(longest()) : -1;
      return p;
    };
    const std::int64_t block = context_.chooser.number(
        name(), "k_block", PointKind::kTile, preferred,
        [&] {
          std::vector<std::int64_t> out = {0};
          for (const std::int64_t b :
               {16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512, 768, 1024}) {
            if (b < extent) out.push_back(b);
          }
          return out;
        },
        [&](std::int64_t value) {
          const ContractionTiling p = with_block(value);
          return refuse_code(p, least_body(p), Known::kNothing);
        });
    tiling_ = with_block(block);
  }

  std::size_t longest() const {
    std::size_t out = product_.reduce.back();
    for (const std::size_t r : product_.reduce) {
      if (stage_.extent(r) > stage_.extent(out)) out = r;
    }
    return out;
  }

  std::int64_t preferred_block(std::int64_t extent) const {
    if (!core_.lane_operands) return block_in_l2(extent);
    // Tiles over which what is read of a panel is used again.
    const std::int64_t few = (product_.rows.empty() ? 2 : core_.few_tiles) * tiling_.rows;
    const bool packed = tiling_.pack_b || b_constant_;
    if (!packed || row_extent(stage_, product_) * points_of(stage_, product_.rows) < few ||
        tiling_.rows < 2)
      return 0;
    const double bytes =
        static_cast<double>(tiling_.columns * size_bytes(product_.b.buffer->dtype));
    const auto l1 = static_cast<double>(context_.l1_bytes());
    // Rows of a product are as long as the panel; those of a window overlap.
    const double rows =
        product_.rows.empty()
            ? static_cast<double>(tiling_.rows * size_bytes(product_.a.buffer->dtype))
            : 0;
    if ((bytes + rows) * static_cast<double>(depth_) <= (rows > 0 ? 0.8 : core_.panel_share) * l1)
      return 0;
    const std::int64_t others = depth_ / std::max<std::int64_t>(1, extent);
    const auto rest = static_cast<double>(others);
    auto length = static_cast<std::int64_t>(core_.block_share * l1 / (bytes * rest));
    length = std::max(core_.shortest_block, length / 8 * 8);
    const std::int64_t even = even_part(parts_of(extent, 8), length / 8) * 8;
    return even >= extent ? 0 : even;
  }

  // Wide vectors and broadcasts leave time to fetch a panel from L2, row of tiles by row of tiles.
  std::int64_t block_in_l2(std::int64_t extent) const {
    if (tiling_.pack_b && may_copy_blocks() && !b_stays_in_l2()) return block_of_copies(extent);
    const auto bytes = static_cast<double>(tiling_.columns * size_bytes(product_.b.buffer->dtype));
    const auto l2 = static_cast<double>(context_.l2_bytes());
    if (bytes * static_cast<double>(depth_) <= l2 / 2) return 0;
    const std::int64_t others = depth_ / std::max<std::int64_t>(1, extent);
    const auto rest = static_cast<double>(others);
    const auto length = static_cast<std::int64_t>(l2 / 4 / (bytes * rest)) / 8 * 8;
    const std::int64_t even =
        even_part(parts_of(extent, 8), std::max(core_.shortest_block, length) / 8) * 8;
    return even >= extent ? 0 : even;
  }

  // A product of two matrices whose sums are stored where they are computed.
  bool may_copy_blocks() const {
    return self_ && tiling_.pack_b && product_.row >= 0 && product_.batch.empty() &&
           product_.rows.empty() && product_.columns.empty() && product_.reduce.size() == 1;
  }
  // All of b once it is copied, beside the rest.
  bool b_stays_in_l2() const {
    return 2 * stage_.extent(product_.vector) * depth_ * size_bytes(product_.b.buffer->dtype) <=
           context_.l2_bytes();
  }
  // The panels of one tile share L1: the rows of a stay there while those of b stream past.
  std::int64_t block_of_copies(std::int64_t extent) const {
    const std::int64_t step = tiling_.rows * size_bytes(product_.a.buffer->dtype) +
                              tiling_.columns * size_bytes(product_.b.buffer->dtype);
    const std::int64_t length = std::max(core_.shortest_block, context_.l1_bytes() / step / 8 * 8);
    const std::int64_t even = even_part(parts_of(extent, 8), length / 8) * 8;
    return even >= extent ? 0 : even;
  }
  // Rows that lie as the reduction runs can be copied as they are.
  bool may_copy_rows() const {
    return !a_constant_ && !tiling_.pack_a && product_.a.buffer != product_.b.buffer &&
           plain(product_.a) && product_.a.strides[product_.reduce.back()] == 1;
  }

  // Iterations of the innermost reduce loop.
  std::int64_t innermost(const ContractionTiling& p) const {
    const std::size_t last = product_.reduce.back();
    return static_cast<int>(last) == p.block_axis ? p.block : stage_.extent(last);
  }

  // Steps of the reduce axis outside of the innermost, where it may be unrolled too; else 0.
  std::int64_t next_steps(const ContractionTiling& p) const {
    if (p.unroll < innermost(p) || product_.reduce.size() < 2 || product_.a.conditional) return 0;
    const std::size_t next = product_.reduce[product_.reduce.size() - 2];
    const std::int64_t steps = stage_.extent(next);
    return static_cast<int>(next) != p.block_axis && steps <= kMaxShortAxis ? steps : 0;
  }
  bool prefers_next(const ContractionTiling& p) const {
    return next_steps(p) * innermost(p) * tile(p) <= core_.unrolled_body;
  }

  // Multiply-adds of the innermost body, of its tail too.
  std::int64_t body(const ContractionTiling& p) const {
    const std::int64_t once = p.unroll * tile(p) * (p.unroll_next ? next_steps(p) : 1);
    return innermost(p) % p.unroll != 0 ? 2 * once : once;
  }
  // ... with the unrolling of `p`, whatever becomes of the axis outside.
  std::int64_t body_without_next(ContractionTiling p) const {
    p.unroll_next = !open_.unroll_next && next_steps(p) > 0 && prefers_next(p);
    return body(p);
  }
  // ... one step at a time, which is always among the values.
  std::int64_t least_body(ContractionTiling p) const {
    p.unroll = 1;
    return body_without_next(p);
  }

  // A short innermost axis is unrolled whole, together with the next one if that is short too.
  void choose_unroll() {
    const std::int64_t extent = innermost(tiling_);
    const auto with_unroll = [&](std::int64_t unroll) {
      ContractionTiling p = tiling_;
      p.unroll = std::min(unroll, std::max<std::int64_t>(1, extent));
      return p;
    };
    const std::int64_t unroll = context_.chooser.number(
        name(), "unroll", PointKind::kUnroll, preferred_unroll(extent),
        [&] {
          std::vector<std::int64_t> out;
          for (const std::int64_t n : {1, 2, 4, 8, 16}) {
            if (n <= extent) out.push_back(n);
          }
          return out;
        },
        [&](std::int64_t value) -> const char* {
          const ContractionTiling p = with_unroll(value);
          if (static_cast<int>(product_.reduce.back()) == p.block_axis && p.block % p.unroll != 0)
            return "blocks of the reduction are not a whole number of unrolled steps";
          return refuse_code(p, body_without_next(p), Known::kNothing);
        });
    tiling_ = with_unroll(unroll);
    if (next_steps(tiling_) > 0) {
      const auto refusal = [&](std::int64_t value) {
        ContractionTiling p = tiling_;
        p.unroll_next = value == 1;
        return refuse_code(p, body(p), Known::kNothing);
      };
      tiling_.unroll_next = context_.chooser.flag(name(), "unroll_next", PointKind::kUnroll,
                                                  prefers_next(tiling_), refusal);
    }
    body_ = body(tiling_);
  }

  // How often the tile is written along an axis that is cut into parts of whole tiles.
  static std::int64_t copies(std::int64_t extent, std::int64_t part, std::int64_t tile) {
    const std::int64_t rest = part >= extent ? extent : extent % part;
    return (part < extent ? 1 : 0) + (rest >= tile ? 1 : 0) + (rest % tile != 0 ? 1 : 0);
  }

  // The decisions on which the code depends: those that are not open take what is preferred, which
  // depends on the others.
  struct Open {
    const Point* blocks = nullptr;
    bool unroll_next = false, part_columns = false, part_rows = false;
    bool row_panel = false, row_tail = false;
  };
  Open open_decisions() const {
    const auto find = [&](const char* what) { return context_.chooser.listed(name(), what); };
    return {.blocks = find("k_block"),
            .unroll_next = find("unroll_next") != nullptr,
            .part_columns = find("part_columns") != nullptr,
            .part_rows = find("part_rows") != nullptr,
            .row_panel = find("row_panel") != nullptr,
            .row_tail = find("row_tail") != nullptr};
  }

  // What is decided of that on which the number of copies of the body depends.
  enum class Known { kNothing, kColumns, kRows, kTail };

  // Multiply-adds of all copies of the body, in the best case of what is not known: one tile is a
  // part, where that is open, and rows are padded.
  std::int64_t least_code(const ContractionTiling& p, std::int64_t body, Known known) const {
    std::int64_t wide = p.columns, tall = p.rows;
    if (p.block > 0) {
      if (known >= Known::kColumns) {
        wide = p.wide;
      } else if (!open_.part_columns) {
        wide = preferred_parts(p).wide * p.columns;
      }
      if (known >= Known::kRows) {
        tall = p.panel > 0 ? p.panel * p.rows : p.tall;
      } else if (!open_.part_rows) {
        tall = preferred_parts(p).tall * p.rows;
      }
    } else {
      const std::int64_t panel =
          known >= Known::kRows || open_.row_panel ? p.panel : preferred_panel(p);
      tall = std::max<std::int64_t>(1, panel) * p.rows;
    }
    const bool pads =
        known == Known::kTail ? p.row_tail == schedule::Tail::kPad : may_pad(p) && open_.row_tail;
    std::int64_t code = body * copies(stage_.extent(product_.vector), wide, p.columns);
    if (!pads) code *= copies(row_extent(stage_, product_), tall, p.rows);
    return product_.a.conditional || product_.b.conditional ? code * limits::kConditionCopies
                                                            : code;
  }
  bool fits(const ContractionTiling& p, std::int64_t body, Known known) const {
    return least_code(p, body, known) <= limits::kProducts;
  }
  const char* refuse_code(const ContractionTiling& p, std::int64_t body, Known known) const {
    return fits(p, body, known) ? nullptr : "too many multiply-adds in all copies of the body";
  }

  std::int64_t preferred_unroll(std::int64_t extent) const {
    // Elements of one word: what takes them out of it is known when they are unrolled.
    if (extent <= kMaxWord && b_constant_ && !product_.b.uses(product_.reduce.back()))
      return extent;
    if (extent <= kMaxShortAxis && extent * tile() <= core_.unrolled_body)
      return std::max<std::int64_t>(1, extent);
    if (!core_.lane_operands) return tile() >= 16 ? 1 : tile() >= 8 ? 2 : 4;
    const bool vector_operand = !tiling_.pack_a && product_.a.strides[product_.reduce.back()] == 1;
    if (!vector_operand) return tile() >= 16 ? 1 : 2;
    for (const std::int64_t n : {8, 4, 2}) {
      if (n * tile() <= core_.body && (extent % n == 0 || n == 4)) return n;
    }
    return 1;
  }

  std::vector<std::int64_t> tile_counts(std::int64_t most) const {
    std::vector<std::int64_t> out;
    for (const std::int64_t n : core_.tile_counts) {
      if (n < most) out.push_back(n);
    }
    out.push_back(most);
    return out;
  }

  // Columns and rows of a part, in tiles.
  struct Parts {
    std::int64_t columns = 1, rows = 1;  // of all
    std::int64_t wide = 1, tall = 1;
  };

  // Parts become smaller until every core has its share of them, the longer side first.
  void shrink_parts(const ContractionTiling& p, Parts* parts) const {
    const std::int64_t others =
        points_of(stage_, product_.batch) * points_of(stage_, product_.columns);
    const auto count = [&] {
      return others * parts_of(parts->columns, parts->wide) * parts_of(parts->rows, parts->tall);
    };
    while (count() < wanted_parts(context_) && (parts->wide > 1 || parts->tall > 1)) {
      const bool widest =
          parts->tall == 1 || (parts->wide > 1 && parts->wide * p.columns >= parts->tall * p.rows);
      std::int64_t* const side = widest ? &parts->wide : &parts->tall;
      *side = even_part(widest ? parts->columns : parts->rows, *side / 2);
    }
  }

  // Convolutions finish one tile of columns over all rows. Products: a block of b in half of L2.
  Parts preferred_parts(const ContractionTiling& p) const {
    Parts out{.columns = parts_of(stage_.extent(product_.vector), p.columns),
              .rows = parts_of(row_extent(stage_, product_), p.rows)};
    out.tall = out.rows;
    if (!product_.rows.empty()) return out;
    const double per_tile =
        static_cast<double>(p.block * p.columns * size_bytes(product_.b.buffer->dtype));
    const auto fit = static_cast<std::int64_t>(static_cast<double>(context_.l2_bytes()) /
                                               (p.copy_blocks ? 2 : 3) / per_tile);
    out.wide = even_part(out.columns, std::max<std::int64_t>(1, std::min(fit, out.columns)));
    if (!p.copy_blocks) out.tall = even_part(out.rows, parts_of(core_.part_rows, p.rows));
    shrink_parts(p, &out);
    return out;
  }

  void choose_block_copies() {
    if (!may_copy_blocks()) return;
    tiling_.copy_blocks =
        context_.chooser.flag(name(), "copy_blocks", PointKind::kCache, !core_.lane_operands);
    tiling_.copy_rows = tiling_.copy_blocks && may_copy_rows();
  }

  // Tiles of a part along one side, of which there are `all`.
  void choose_part(const char* what, std::int64_t ContractionTiling::*side, std::int64_t tile,
                   std::int64_t all, std::int64_t preferred, Known known) {
    const auto with_tiles = [&](std::int64_t tiles) {
      ContractionTiling p = tiling_;
      p.*side = tile * std::min(all, tiles);
      return p;
    };
    tiling_ = with_tiles(context_.chooser.number(
        name(), what, PointKind::kTile, preferred, [&] { return tile_counts(all); },
        [&](std::int64_t n) { return refuse_code(with_tiles(n), body_, known); }));
  }

  void choose_parts() {
    const Parts parts = preferred_parts(tiling_);
    choose_part("part_columns", &ContractionTiling::wide, tiling_.columns, parts.columns,
                parts.wide, Known::kColumns);
    choose_part("part_rows", &ContractionTiling::tall, tiling_.rows, parts.rows, parts.tall,
                Known::kRows);
    static constexpr const char* kOrders[] = {"columns", "rows", "outer_rows"};
    const std::int64_t count =
        points_of(stage_, product_.batch) * points_of(stage_, product_.columns) * parts.columns;
    const bool few = 4 * count < 3 * wanted_parts(context_);
    const auto order = few && !product_.rows.empty() ? PartOrder::kOuterRows : PartOrder::kColumns;
    tiling_.part_order = static_cast<PartOrder>(
        context_.chooser.word(name(), "part_order", PointKind::kOrder, static_cast<int>(order),
                              std::span(kOrders).first(product_.rows.empty() ? 2 : 3)));
    if (tiling_.copy_blocks && tiling_.tall >= row_extent(stage_, product_)) choose_panel();
    static constexpr const char* kInside[] = {"columns", "rows"};
    tiling_.rows_outside = context_.chooser.word(name(), "tile_order", PointKind::kOrder,
                                                 product_.rows.empty() ? 1 : 0, kInside) == 1;
    if (may_fuse_pixels()) {
      tiling_.pixels =
          context_.chooser.flag(name(), "pixels", PointKind::kTile, false, [&](std::int64_t value) {
            ContractionTiling p = tiling_;
            p.pixels = value == 1;
            return refuse_code(p, body_, Known::kRows);
          });
    }
    const double work = 2 * stage_.iterations();
    if (may_share(context_, name(), work) && product_.batch.empty() && worth_threads(work))
      tiling_.share_tiles =
          context_.chooser.flag(name(), "share_tiles", PointKind::kParallel, false);
  }

  // The part must hold all rows: tiles then run on from one row to the next.
  bool may_fuse_pixels() const {
    return !product_.rows.empty() && tiling_.part_order != PartOrder::kOuterRows &&
           tiling_.tall >= row_extent(stage_, product_) &&
           product_.rows.back() + 1 == static_cast<std::size_t>(product_.row) &&
           !product_.a.conditional && !a_constant_;
  }

  void choose_order() {
    if (by_rows_) {
      tiling_.order = LoopOrder::kOuterRows;
      return;
    }
    const bool copies = tiling_.pack_a || tiling_.pack_b;
    if (product_.rows.empty() && product_.row >= 0) choose_panel();
    if (!copies) choose_hoist();
    static constexpr const char* kOrders[] = {"columns", "outer_rows", "rows", "rows_first"};
    if (product_.row < 0) return;
    tiling_.order = static_cast<LoopOrder>(context_.chooser.word(
        name(), "order", PointKind::kOrder, static_cast<int>(preferred_order()),
        std::span(kOrders).first(product_.columns.empty() ? 3 : 4)));
  }

  // Columns outside: a panel of b stays in L1 while rows stream past it. Rows outside where all of
  // b fits L2 and there are outer rows to share out, or where columns are too few to share out.
  LoopOrder preferred_order() const {
    if (a_constant_ && !tiling_.pack_b)
      return product_.columns.empty() ? LoopOrder::kRows : LoopOrder::kRowsFirst;
    const double b_bytes =
        static_cast<double>(stage_.extent(product_.vector) * points_of(stage_, product_.columns) *
                            points_of(stage_, product_.reduce)) *
        size_bytes(product_.b.buffer->dtype);
    const bool fits = b_bytes <= static_cast<double>(context_.l2_bytes()) / 2;
    // A panel comes from L2 for every tile, whatever the order: rows outside then read and write
    // memory as it lies. Many weights for few tiles are better fetched panel by panel.
    const bool fetched =
        b_constant_ && 4 * b_bytes > static_cast<double>(context_.l2_bytes()) &&
        parts_of(row_extent(stage_, product_), tiling_.rows) * points_of(stage_, product_.rows) <=
            kFetchedTiles;
    if (!core_.lane_operands && fits && !fetched)
      return product_.rows.empty() ? LoopOrder::kRows : LoopOrder::kOuterRows;
    const std::int64_t outer_rows =
        tiling_.hoist != Hoist::kNone ? 1 : points_of(stage_, product_.rows);
    if (fits && outer_rows >= std::int64_t{2} * context_.target.code_threads())
      return LoopOrder::kOuterRows;
    const bool other_rows = tiling_.hoist == Hoist::kNone && !product_.rows.empty();
    const std::int64_t columns = parts_of(stage_.extent(product_.vector), tiling_.columns);
    const bool few_columns = !other_rows && tiling_.panel == 0 &&
                             columns < std::int64_t{2} * context_.target.code_threads() &&
                             parts_of(row_extent(stage_, product_), tiling_.rows) > columns;
    return few_columns ? LoopOrder::kRows : LoopOrder::kColumns;
  }

  // Rows in panels that stay in L2 while columns change.
  std::int64_t preferred_panel(const ContractionTiling& p) const {
    if (!product_.rows.empty() || product_.row < 0) return 0;
    const std::int64_t extent = row_extent(stage_, product_);
    if (p.copy_blocks) {
      const std::int64_t tiles = parts_of(extent, p.rows);
      const std::int64_t panel = even_part(tiles, parts_of(core_.part_rows, p.rows));
      return p.tall >= extent && panel < tiles ? panel : 0;
    }
    const double row_bytes = static_cast<double>(std::max<std::int64_t>(1, depth_)) *
                             size_bytes(product_.a.buffer->dtype);
    const auto fit = static_cast<std::int64_t>(static_cast<double>(context_.l2_bytes()) / 2 /
                                               row_bytes / static_cast<double>(p.rows));
    return fit >= 4 && extent > fit * p.rows ? even_part(parts_of(extent, p.rows), fit) : 0;
  }

  void choose_panel() {
    const auto with_panel = [&](std::int64_t tiles) {
      ContractionTiling p = tiling_;
      p.panel = tiles * p.rows >= row_extent(stage_, product_) ? 0 : tiles;
      return p;
    };
    tiling_ = with_panel(context_.chooser.number(
        name(), "row_panel", PointKind::kTile, preferred_panel(tiling_),
        [&] {
          std::vector<std::int64_t> out = {0};
          for (const std::int64_t n : {2, 4, 8, 16, 32, 64}) {
            if (n < parts_of(row_extent(stage_, product_), tiling_.rows)) out.push_back(n);
          }
          return out;
        },
        [&](std::int64_t n) { return refuse_code(with_panel(n), body_, Known::kRows); }));
  }

  // Entries of the batch lie within what a step of the row passes over.
  bool beside(std::size_t batch, std::size_t row) const {
    return product_.a.strides[batch] > 0 && product_.a.strides[batch] < product_.a.strides[row];
  }

  // Batch entries that lie side by side in memory (groups of channels) go inside the rows; so does
  // everything where conditions of the product are cut off the loops, which fused loops prevent.
  void choose_hoist() {
    const bool interleaved =
        std::any_of(product_.batch.begin(), product_.batch.end(), [&](std::size_t b) {
          return std::any_of(product_.rows.begin(), product_.rows.end(),
                             [&](std::size_t r) { return beside(b, r); });
        });
    Hoist preferred = Hoist::kNone;
    if (interleaved || product_.a.conditional)
      preferred = tiles_before_batch() ? Hoist::kTiles : Hoist::kRows;
    static constexpr const char* kWords[] = {"no", "rows", "tiles"};
    const bool open = !product_.a.conditional && !product_.batch.empty() && product_.row >= 0;
    tiling_.hoist =
        open ? static_cast<Hoist>(context_.chooser.word(name(), "hoist", PointKind::kOrder,
                                                        static_cast<int>(preferred), kWords))
             : preferred;
  }

  // Groups of channels take a part of every line they read: all of them run over the few rows of a
  // tile, unless their weights are too many to be read again for the next one.
  bool tiles_before_batch() const {
    if (product_.row < 0 || product_.a.conditional) return false;
    const bool all_beside = std::all_of(
        product_.batch.begin(), product_.batch.end(),
        [&](std::size_t b) { return beside(b, static_cast<std::size_t>(product_.row)); });
    double weights = 1;
    for (const std::int64_t d : product_.b.buffer->shape) weights *= static_cast<double>(d);
    weights *= size_bytes(product_.b.buffer->dtype);
    return all_beside && !product_.batch.empty() &&
           weights <= static_cast<double>(context_.l2_bytes()) / 2;
  }

  // Where tiles of rows do not come out even: a copy of the code, or rows that nobody reads. Only
  // storage of the schedule itself can grow.
  bool may_pad(const ContractionTiling& p) const {
    const bool own = !stage_.output && (p.block > 0 || self_);
    return own && product_.row >= 0 && p.rows > 1 && row_extent(stage_, product_) % p.rows != 0 &&
           !p.pixels;
  }

  void choose_tail() {
    if (!may_pad(tiling_)) return;
    static constexpr const char* kTails[] = {"peel", "pad"};
    const auto with_tail = [&](std::int64_t value) {
      ContractionTiling p = tiling_;
      p.row_tail = value == 1 ? schedule::Tail::kPad : schedule::Tail::kPeel;
      return p;
    };
    tiling_ = with_tail(context_.chooser.word(
        name(), "row_tail", PointKind::kTail, 0, kTails,
        [&](std::int64_t value) { return refuse_code(with_tail(value), body_, Known::kTail); }));
  }

  Context& context_;
  const Contraction& product_;
  const Stage& stage_;
  bool self_;
  const target::Core& core_;
  bool a_constant_, b_constant_;
  std::int64_t depth_;
  Open open_;
  // What it reads is computed row by row: whole sums of one row after the other.
  bool by_rows_;
  std::int64_t body_ = 1;  // multiply-adds of the innermost body
  ContractionTiling tiling_;
};

}  // namespace

std::int64_t row_extent(const Stage& stage, const Contraction& c) {
  return c.row < 0 ? 1 : stage.extent(static_cast<std::size_t>(c.row));
}

std::int64_t points_of(const Stage& stage, const std::vector<std::size_t>& axes) {
  std::int64_t out = 1;
  for (const std::size_t i : axes) out *= stage.extent(i);
  return out;
}

ContractionTiling tile_contraction(Context& context, const Contraction& c, const Nest& nest) {
  return Tiler(context, c, nest.stage == c.stage).run();
}

}  // namespace tessera::space
