#include "tessera/space/contraction_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/space/tile.h"
#include "tessera/space/transform.h"

namespace tessera::space {
namespace {

// Share of L1 that the panel of one tile may take while the other operand streams past it.
constexpr double kPanelShare = 0.62;
// ... when the sums are kept in memory anyway and blocks may be as short as they like.
constexpr double kBlockShare = 0.3;
// Multiply-adds in the body of the innermost loop.
constexpr std::int64_t kMaxBody = 176;
constexpr std::int64_t kMaxUnrolledBody = 352;
// Rows over which a block of columns is used before the next part begins.
constexpr std::int64_t kPartRows = 128;
// Tiles of a window below which sums stay in registers, however long the panel.
constexpr std::int64_t kFewTiles = 5;
// Shorter blocks spend their time adding to memory.
constexpr std::int64_t kMinBlock = 32;
constexpr std::int64_t kMaxShortAxis = 8;
// Multiply-adds of all copies of the body: tails, and what conditions cut off. Compiling takes time
// in proportion.
constexpr std::int64_t kMaxCode = 800;
constexpr std::int64_t kConditionCopies = 4;
// Tiles of rows that use a panel before the next one is wanted: so few leave no time to fetch it.
constexpr std::int64_t kStreamedTiles = 4;
// Multiply-adds of vectors in the time that a line takes to come from memory.
constexpr std::int64_t kAheadProducts = 1536;
// Steps of the reduction that a streamed panel is fetched ahead.
constexpr std::int64_t kStreamAhead = 288;

class Planner {
 public:
  Planner(Context& context, const Contraction& c, bool self)
      : x_(context),
        c_(c),
        s_(context.stage(c.stage)),
        self_(self),
        lane_operands_(has_lane_operands(context.target)),
        a_constant_(context.analysis.constant(c.a.buffer)),
        b_constant_(context.analysis.constant(c.b.buffer)),
        depth_(product(c.reduce)) {}

  ContractionPlan run() {
    p_.lanes = x_.lanes(s_.dtype());
    choose_copies();
    choose_tile_size();
    choose_block();
    choose_unroll();
    if (p_.block > 0) {
      choose_parts();
    } else {
      choose_order();
    }
    p_.prefetch =
        x_.chooser.number(name(), "prefetch", DecisionKind::kCache, preferred_prefetch(), [] {
          return std::vector<std::int64_t>{8, 32, 128, 288};
        });
    if (p_.prefetch > 0 && p_.unroll > 1) {
      p_.prefetch_steps =
          x_.chooser.flag(name(), "prefetch_steps", DecisionKind::kCache, streams());
    }
    choose_tail();
    check_code();
    p_.sharing = choose_sharing(x_, name(), 2 * s_.iterations());
    return p_;
  }

 private:
  const std::string& name() const { return s_.op.name; }
  std::int64_t row_extent() const {
    return c_.row < 0 ? 1 : s_.extent(static_cast<std::size_t>(c_.row));
  }
  std::int64_t product(const std::vector<std::size_t>& axes) const {
    std::int64_t out = 1;
    for (const std::size_t i : axes) out *= s_.extent(i);
    return out;
  }
  std::int64_t tile() const { return p_.rows * parts_of(p_.columns, p_.lanes); }

  // The panels of b come from L3, each for a few tiles. From memory they come no sooner for being
  // asked for.
  bool streams() const {
    if (!b_constant_ || p_.block > 0 || p_.unroll < 2) return false;
    double bytes = size_bytes(c_.b.buffer->dtype);
    for (const std::int64_t d : c_.b.buffer->shape) bytes *= static_cast<double>(d);
    return parts_of(row_extent(), p_.rows) * product(c_.rows) <= kStreamedTiles &&
           bytes > static_cast<double>(x_.l2_bytes()) &&
           2 * bytes < static_cast<double>(x_.target.l3_bytes);
  }

  // Weights come from L3 or memory for every inference, page by page: hardware that fetches ahead
  // begins anew with each of them.
  std::int64_t preferred_prefetch() const {
    if (lane_operands_) return streams() ? kStreamAhead : 0;
    if (!b_constant_ || depth_ < 32) return 0;
    double bytes = size_bytes(c_.b.buffer->dtype);
    for (const std::int64_t d : c_.b.buffer->shape) bytes *= static_cast<double>(d);
    const std::int64_t steps = kAheadProducts / std::max<std::int64_t>(1, tile());
    return bytes > static_cast<double>(x_.l1_bytes()) ? std::max<std::int64_t>(8, steps) : 0;
  }

  static bool plain(const Access& access) {
    return std::all_of(access.indices.begin(), access.indices.end(), [](const Index& i) {
      return i.single_axis() >= 0 || (i.terms.empty() && i.irregular.empty());
    });
  }

  // Copying pays when every element of the copy is used often enough.
  void choose_copies() {
    const bool same = c_.a.buffer == c_.b.buffer;
    const int producer = x_.analysis.producer(c_.a.buffer);
    const bool transform =
        producer >= 0 && is_transform(x_.stage(static_cast<std::size_t>(producer)));
    const std::int64_t columns = s_.extent(c_.vector);
    if (!a_constant_ && !same && !transform && plain(c_.a) && c_.rows.empty() &&
        row_extent() >= 4) {
      const bool pays = lane_operands_ && columns * product(c_.columns) >= 48 && depth_ >= 16;
      p_.pack_a = x_.chooser.flag(name(), "pack_a", DecisionKind::kCache, pays);
    }
    if (!b_constant_ && !same && plain(c_.b) && c_.columns.empty()) {
      const bool contiguous = c_.b.strides[c_.vector] == 1;
      const bool pays = row_extent() * product(c_.rows) >= 4 &&
                        (lane_operands_ || !contiguous || !b_spans_little());
      const bool open = contiguous && row_extent() >= 2;
      p_.pack_b = open ? x_.chooser.flag(name(), "pack_b", DecisionKind::kCache, pays) : pays;
    }
  }

  // The rows of b that a panel takes its columns from lie within a part of L2.
  bool b_spans_little() const {
    const std::int64_t step = c_.b.strides[c_.reduce.back()];
    return c_.reduce.size() == 1 &&
           4 * step * depth_ * size_bytes(c_.b.buffer->dtype) <= x_.l2_bytes();
  }

  void choose_tile_size() {
    const std::int64_t columns = s_.extent(c_.vector);
    const bool side_by_side = p_.pack_a || a_constant_ ||
                              (c_.row >= 0 && c_.a.strides[static_cast<std::size_t>(c_.row)] == 1);
    const TileRequest request{.rows = row_extent(),
                              .columns = columns,
                              .depth = depth_,
                              .lanes = p_.lanes,
                              .packed = side_by_side};
    const RegisterTile tile = choose_tile(request, x_.target);
    const RegisterTile choice = choose_tile_of(x_, name(), request, tile);
    p_.rows = choice.rows;
    p_.columns = at_most(choice.vectors * p_.lanes, columns);
  }

  // The longest reduce axis is cut when the panel of a tile does not stay in L1.
  void choose_block() {
    if (c_.row < 0) return;
    std::size_t longest = c_.reduce.back();
    for (const std::size_t r : c_.reduce) {
      if (s_.extent(r) > s_.extent(longest)) longest = r;
    }
    const std::int64_t extent = s_.extent(longest);
    const std::int64_t preferred = preferred_block(extent);
    const std::int64_t block =
        x_.chooser.number(name(), "k_block", DecisionKind::kTile, preferred, [&] {
          std::vector<std::int64_t> out = {0};
          for (const std::int64_t b :
               {16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512, 768, 1024}) {
            if (b < extent) out.push_back(b);
          }
          return out;
        });
    if (block == 0) return;
    p_.block_axis = static_cast<int>(longest);
    p_.block = block;
  }

  std::int64_t preferred_block(std::int64_t extent) const {
    if (!lane_operands_) return block_in_l2(extent);
    // Tiles over which what is read of a panel is used again.
    const std::int64_t few = (c_.rows.empty() ? 2 : kFewTiles) * p_.rows;
    const bool packed = p_.pack_b || b_constant_;
    if (!packed || row_extent() * product(c_.rows) < few || p_.rows < 2) return 0;
    const double bytes = static_cast<double>(p_.columns * size_bytes(c_.b.buffer->dtype));
    const auto l1 = static_cast<double>(x_.l1_bytes());
    // Rows of a product are as long as the panel; those of a window overlap.
    const double rows =
        c_.rows.empty() ? static_cast<double>(p_.rows * size_bytes(c_.a.buffer->dtype)) : 0;
    if ((bytes + rows) * static_cast<double>(depth_) <= (rows > 0 ? 0.8 : kPanelShare) * l1)
      return 0;
    const double rest = static_cast<double>(depth_ / std::max<std::int64_t>(1, extent));
    auto length = static_cast<std::int64_t>(kBlockShare * l1 / (bytes * rest));
    length = std::max(kMinBlock, length / 8 * 8);
    const std::int64_t even = even_part(parts_of(extent, 8), length / 8) * 8;
    return even >= extent ? 0 : even;
  }

  // Wide vectors and broadcasts leave time to fetch a panel from L2, row of tiles by row of tiles.
  std::int64_t block_in_l2(std::int64_t extent) const {
    const auto bytes = static_cast<double>(p_.columns * size_bytes(c_.b.buffer->dtype));
    const auto l2 = static_cast<double>(x_.l2_bytes());
    if (bytes * static_cast<double>(depth_) <= l2 / 2) return 0;
    const double rest = static_cast<double>(depth_ / std::max<std::int64_t>(1, extent));
    const auto length = static_cast<std::int64_t>(l2 / 4 / (bytes * rest)) / 8 * 8;
    const std::int64_t even = even_part(parts_of(extent, 8), std::max(kMinBlock, length) / 8) * 8;
    return even >= extent ? 0 : even;
  }

  // A short innermost axis is unrolled whole, together with the next one if that is short too.
  void choose_unroll() {
    const std::size_t last = c_.reduce.back();
    const std::int64_t extent =
        static_cast<int>(last) == p_.block_axis ? p_.block : s_.extent(last);
    const std::int64_t unroll =
        x_.chooser.number(name(), "unroll", DecisionKind::kUnroll, preferred_unroll(extent), [&] {
          std::vector<std::int64_t> out;
          for (const std::int64_t n : {1, 2, 4, 8, 16}) {
            if (n <= extent) out.push_back(n);
          }
          return out;
        });
    p_.unroll = std::min(unroll, std::max<std::int64_t>(1, extent));
    if (p_.block > 0 && static_cast<int>(last) == p_.block_axis && p_.block % p_.unroll != 0)
      x_.chooser.refuse("blocks of the reduction are no whole number of unrolled steps");
    body_ = p_.unroll * tile();
    if (p_.unroll >= extent && c_.reduce.size() >= 2 && !c_.a.conditional) {
      const std::size_t next = c_.reduce[c_.reduce.size() - 2];
      const std::int64_t steps = s_.extent(next);
      if (static_cast<int>(next) != p_.block_axis && steps <= kMaxShortAxis) {
        const bool fits = steps * extent * tile() <= kMaxUnrolledBody;
        p_.unroll_next = x_.chooser.flag(name(), "unroll_next", DecisionKind::kUnroll, fits);
        if (p_.unroll_next) body_ *= steps;
      }
    }
    if (extent % p_.unroll != 0) body_ *= 2;
  }

  // How often the tile is written along an axis that is cut into parts of whole tiles.
  static std::int64_t copies(std::int64_t extent, std::int64_t part, std::int64_t tile) {
    const std::int64_t rest = part >= extent ? extent : extent % part;
    return (part < extent ? 1 : 0) + (rest >= tile ? 1 : 0) + (rest % tile != 0 ? 1 : 0);
  }

  void check_code() {
    const bool parts = p_.block > 0;
    const std::int64_t wide = parts ? p_.wide : p_.columns;
    const std::int64_t tall = parts ? p_.tall : std::max<std::int64_t>(1, p_.panel) * p_.rows;
    std::int64_t code = body_ * copies(s_.extent(c_.vector), wide, p_.columns);
    if (p_.row_tail == schedule::Tail::kPeel) code *= copies(row_extent(), tall, p_.rows);
    if (c_.a.conditional || c_.b.conditional) code *= kConditionCopies;
    if (code > kMaxCode) {
      x_.chooser.refuse(
          fmt::format("{} multiply-adds in all copies of the body, more than {}", code, kMaxCode));
    }
  }

  std::int64_t preferred_unroll(std::int64_t extent) const {
    if (extent <= kMaxShortAxis && extent * tile() <= kMaxUnrolledBody)
      return std::max<std::int64_t>(1, extent);
    if (!lane_operands_) return tile() >= 16 ? 1 : tile() >= 8 ? 2 : 4;
    const bool vector_operand = !p_.pack_a && c_.a.strides[c_.reduce.back()] == 1;
    if (!vector_operand) return tile() >= 16 ? 1 : 2;
    for (const std::int64_t n : {8, 4, 2}) {
      if (n * tile() <= kMaxBody && (extent % n == 0 || n == 4)) return n;
    }
    return 1;
  }

  static std::vector<std::int64_t> tile_counts(std::int64_t most) {
    std::vector<std::int64_t> out;
    for (const std::int64_t n : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 86, 128, 256}) {
      if (n < most) out.push_back(n);
    }
    out.push_back(most);
    return out;
  }

  // Parts become smaller until every core has its share of them, the longer side first.
  void shrink_parts(std::int64_t columns, std::int64_t rows, std::int64_t* wide,
                    std::int64_t* tall) const {
    const std::int64_t others = product(c_.batch) * product(c_.columns);
    while (others * parts_of(columns, *wide) * parts_of(rows, *tall) < wanted_parts(x_) &&
           (*wide > 1 || *tall > 1)) {
      const bool widest = *tall == 1 || (*wide > 1 && *wide * p_.columns >= *tall * p_.rows);
      std::int64_t* const side = widest ? wide : tall;
      *side = even_part(widest ? columns : rows, *side / 2);
    }
  }

  // Convolutions finish one tile of columns over all rows. Products: a block of b in half of L2.
  void choose_parts() {
    const std::int64_t columns = parts_of(s_.extent(c_.vector), p_.columns);
    const double per_tile =
        static_cast<double>(p_.block * p_.columns * size_bytes(c_.b.buffer->dtype));
    const auto fit = static_cast<std::int64_t>(static_cast<double>(x_.l2_bytes()) / 3 / per_tile);
    std::int64_t wide =
        c_.rows.empty() ? even_part(columns, std::max<std::int64_t>(1, std::min(fit, columns))) : 1;
    const std::int64_t rows = parts_of(row_extent(), p_.rows);
    std::int64_t tall = c_.rows.empty() ? even_part(rows, parts_of(kPartRows, p_.rows)) : rows;
    if (c_.rows.empty()) shrink_parts(columns, rows, &wide, &tall);
    p_.wide = p_.columns *
              std::min(columns, x_.chooser.number(name(), "part_columns", DecisionKind::kTile, wide,
                                                  [&] { return tile_counts(columns); }));
    p_.tall = p_.rows * std::min(rows, x_.chooser.number(name(), "part_rows", DecisionKind::kTile,
                                                         tall, [&] { return tile_counts(rows); }));
    static constexpr const char* kOrders[] = {"columns", "rows", "outer_rows"};
    const std::int64_t parts = product(c_.batch) * product(c_.columns) * columns;
    const bool few = 4 * parts < 3 * wanted_parts(x_);
    const auto order = few && !c_.rows.empty() ? PartOrder::kOuterRows : PartOrder::kColumns;
    p_.part_order = static_cast<PartOrder>(
        x_.chooser.word(name(), "part_order", DecisionKind::kOrder, static_cast<int>(order),
                        std::span(kOrders).first(c_.rows.empty() ? 2 : 3)));
    static constexpr const char* kInside[] = {"columns", "rows"};
    p_.rows_outside = x_.chooser.word(name(), "tile_order", DecisionKind::kOrder,
                                      c_.rows.empty() ? 1 : 0, kInside) == 1;
    if (may_fuse_pixels())
      p_.pixels = x_.chooser.flag(name(), "pixels", DecisionKind::kTile, false);
    const double work = 2 * s_.iterations();
    if (may_share(x_, name(), work) && c_.batch.empty() && Context::worth_threads(work))
      p_.share_tiles = x_.chooser.flag(name(), "share_tiles", DecisionKind::kParallel, false);
  }

  // The part must hold all rows: tiles then run on from one row to the next.
  bool may_fuse_pixels() const {
    return !c_.rows.empty() && p_.part_order != PartOrder::kOuterRows && p_.tall >= row_extent() &&
           c_.rows.back() + 1 == static_cast<std::size_t>(c_.row) && !c_.a.conditional &&
           !a_constant_;
  }

  void choose_order() {
    const bool copies = p_.pack_a || p_.pack_b;
    if (c_.rows.empty() && c_.row >= 0) choose_panel();
    if (!copies) choose_hoist();
    static constexpr const char* kOrders[] = {"columns", "outer_rows", "rows", "rows_first"};
    if (c_.row < 0) return;
    p_.order = static_cast<LoopOrder>(
        x_.chooser.word(name(), "order", DecisionKind::kOrder, static_cast<int>(preferred_order()),
                        std::span(kOrders).first(c_.columns.empty() ? 3 : 4)));
  }

  // Columns outside: a panel of b stays in L1 while rows stream past it. Rows outside where all of
  // b fits L2 and there are outer rows to share out, or where columns are too few to share out.
  LoopOrder preferred_order() const {
    if (a_constant_ && !p_.pack_b)
      return c_.columns.empty() ? LoopOrder::kRows : LoopOrder::kRowsFirst;
    const double b_bytes =
        static_cast<double>(s_.extent(c_.vector) * product(c_.columns) * product(c_.reduce)) *
        size_bytes(c_.b.buffer->dtype);
    const bool fits = b_bytes <= static_cast<double>(x_.l2_bytes()) / 2;
    // A panel comes from L2 for every tile, whatever the order: rows outside then read and write
    // memory as it lies.
    if (!lane_operands_ && fits) return c_.rows.empty() ? LoopOrder::kRows : LoopOrder::kOuterRows;
    const std::int64_t outer_rows = p_.hoist != Hoist::kNone ? 1 : product(c_.rows);
    if (fits && outer_rows >= 2 * x_.target.code_threads()) return LoopOrder::kOuterRows;
    const bool other_rows = p_.hoist == Hoist::kNone && !c_.rows.empty();
    const std::int64_t columns = parts_of(s_.extent(c_.vector), p_.columns);
    const bool few_columns = !other_rows && p_.panel == 0 &&
                             columns < 2 * x_.target.code_threads() &&
                             parts_of(row_extent(), p_.rows) > columns;
    return few_columns ? LoopOrder::kRows : LoopOrder::kColumns;
  }

  // Rows in panels that stay in L2 while columns change.
  void choose_panel() {
    const std::int64_t extent = row_extent();
    const double row_bytes =
        static_cast<double>(std::max<std::int64_t>(1, depth_)) * size_bytes(c_.a.buffer->dtype);
    const auto fit = static_cast<std::int64_t>(static_cast<double>(x_.l2_bytes()) / 2 / row_bytes /
                                               static_cast<double>(p_.rows));
    const std::int64_t tiles = parts_of(extent, p_.rows);
    const std::int64_t preferred = fit >= 4 && extent > fit * p_.rows ? even_part(tiles, fit) : 0;
    p_.panel = x_.chooser.number(name(), "row_panel", DecisionKind::kTile, preferred, [&] {
      std::vector<std::int64_t> out = {0};
      for (const std::int64_t n : {2, 4, 8, 16, 32, 64}) {
        if (n < tiles) out.push_back(n);
      }
      return out;
    });
    if (p_.panel * p_.rows >= extent) p_.panel = 0;
  }

  // Entries of the batch lie within what a step of the row passes over.
  bool beside(std::size_t batch, std::size_t row) const {
    return c_.a.strides[batch] > 0 && c_.a.strides[batch] < c_.a.strides[row];
  }

  // Batch entries that lie side by side in memory (groups of channels) go inside the rows; so does
  // everything where conditions of the product are cut off the loops, which fused loops prevent.
  void choose_hoist() {
    const bool interleaved = std::any_of(c_.batch.begin(), c_.batch.end(), [&](std::size_t b) {
      return std::any_of(c_.rows.begin(), c_.rows.end(),
                         [&](std::size_t r) { return beside(b, r); });
    });
    Hoist preferred = Hoist::kNone;
    if (interleaved || c_.a.conditional)
      preferred = tiles_before_batch() ? Hoist::kTiles : Hoist::kRows;
    static constexpr const char* kWords[] = {"no", "rows", "tiles"};
    const bool open = !c_.a.conditional && !c_.batch.empty() && c_.row >= 0;
    p_.hoist = open ? static_cast<Hoist>(x_.chooser.word(name(), "hoist", DecisionKind::kOrder,
                                                         static_cast<int>(preferred), kWords))
                    : preferred;
  }

  // Groups of channels take a part of every line they read: all of them run over the few rows of a
  // tile, unless their weights are too many to be read again for the next one.
  bool tiles_before_batch() const {
    if (c_.row < 0 || c_.a.conditional) return false;
    const bool all_beside = std::all_of(c_.batch.begin(), c_.batch.end(), [&](std::size_t b) {
      return beside(b, static_cast<std::size_t>(c_.row));
    });
    double weights = 1;
    for (const std::int64_t d : c_.b.buffer->shape) weights *= static_cast<double>(d);
    weights *= size_bytes(c_.b.buffer->dtype);
    return all_beside && !c_.batch.empty() && weights <= static_cast<double>(x_.l2_bytes()) / 2;
  }

  // Where tiles of rows do not come out even: a copy of the code, or rows that nobody reads. Only
  // storage of the schedule itself can grow.
  void choose_tail() {
    const bool own = !s_.output && (p_.block > 0 || self_);
    if (!own || c_.row < 0 || p_.rows == 1 || row_extent() % p_.rows == 0 || p_.pixels) return;
    static constexpr const char* kTails[] = {"peel", "pad"};
    if (x_.chooser.word(name(), "row_tail", DecisionKind::kTail, 0, kTails) == 1)
      p_.row_tail = schedule::Tail::kPad;
  }

  Context& x_;
  const Contraction& c_;
  const Stage& s_;
  bool self_, lane_operands_, a_constant_, b_constant_;
  std::int64_t depth_;
  std::int64_t body_ = 1;  // multiply-adds of the innermost body, of its tail too
  ContractionPlan p_;
};

}  // namespace

ContractionPlan plan_contraction(Context& context, const Contraction& c, const Host& host) {
  return Planner(context, c, host.stage == c.stage).run();
}

}  // namespace tessera::space
