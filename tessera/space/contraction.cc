#include "tessera/space/contraction.h"

#include <algorithm>

#include "tessera/space/pack.h"
#include "tessera/space/pointwise.h"
#include "tessera/space/tile.h"
#include "tessera/space/transform.h"
#include "tessera/support/check.h"

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
// Full vectors along a row that takes the place of columns.
constexpr std::int64_t kVectorsPerRow = 4;
// Shorter blocks spend their time adding to memory.
constexpr std::int64_t kMinBlock = 32;

std::int64_t parts(std::int64_t extent, std::int64_t length) {
  return (extent + length - 1) / length;
}

// Writes one contraction. The host is the stage itself where there is no epilogue.
class ContractionWriter {
 public:
  ContractionWriter(Context& context, Contraction c, Host host)
      : x_(context),
        c_(std::move(c)),
        host_(std::move(host)),
        s_(context.stage(c_.stage)),
        h_(context.stage(host_.stage)),
        self_(host_.stage == c_.stage) {}

  void run() {
    choose();
    if (block_ > 0) {
      write_blocked();
    } else {
      write_whole();
    }
    x_.done[c_.stage] = true;
    x_.done[host_.stage] = true;
  }

 private:
  std::int64_t row_extent() const {
    return c_.row < 0 ? 1 : s_.extent(static_cast<std::size_t>(c_.row));
  }
  std::int64_t product(const std::vector<std::size_t>& axes) const {
    std::int64_t out = 1;
    for (const std::size_t i : axes) out *= s_.extent(i);
    return out;
  }
  std::string host_axis(std::size_t axis) const { return h_.axis_name(host_.axis[axis]); }

  static bool plain(const Access& access) {
    return std::all_of(access.indices.begin(), access.indices.end(), [](const Index& i) {
      return i.single_axis() >= 0 || (i.terms.empty() && i.irregular.empty());
    });
  }

  void choose() {
    const std::int64_t columns = s_.extent(c_.vector);
    const std::int64_t depth = product(c_.reduce);
    const bool a_constant = x_.analysis.constant(c_.a.buffer);
    const bool b_constant = x_.analysis.constant(c_.b.buffer);
    const bool same = c_.a.buffer == c_.b.buffer;
    lanes_ = x_.lanes(s_.dtype());
    // Copying pays when every element of the copy is used often enough.
    const int producer = x_.analysis.producer(c_.a.buffer);
    const bool transform =
        producer >= 0 && is_transform(x_.stage(static_cast<std::size_t>(producer)));
    pack_a_ = !a_constant && !same && !transform && plain(c_.a) && c_.rows.empty() &&
              row_extent() >= 4 && columns * product(c_.columns) >= 48 && depth >= 16;
    pack_b_ = !b_constant && !same && plain(c_.b) && row_extent() * product(c_.rows) >= 4 &&
              c_.columns.empty();
    const bool side_by_side = pack_a_ || a_constant ||
                              (c_.row >= 0 && c_.a.strides[static_cast<std::size_t>(c_.row)] == 1);
    const RegisterTile tile = choose_tile({.rows = row_extent(),
                                           .columns = columns,
                                           .depth = depth,
                                           .lanes = lanes_,
                                           .packed = side_by_side},
                                          x_.target);
    rows_ = tile.rows;
    columns_ = at_most(tile.vectors * lanes_, columns);
    choose_block(depth);
    if (b_constant || pack_b_)
      packs_.push_back(
          make_pack(x_, c_, c_.b, c_.vector, columns_, block_axis_, block_, !b_constant));
    if (rows_ > 1 && (a_constant || pack_a_) && !same) {
      packs_.push_back(make_pack(x_, c_, c_.a, static_cast<std::size_t>(c_.row), rows_, block_axis_,
                                 block_, !a_constant));
    }
  }

  // The longest reduce axis is cut when the panel of a tile does not stay in L1.
  void choose_block(std::int64_t depth) {
    const bool packed = pack_b_ || x_.analysis.constant(c_.b.buffer);
    // Tiles over which what is read of a panel is used again.
    const std::int64_t few = (c_.rows.empty() ? 2 : kFewTiles) * rows_;
    if (!packed || row_extent() * product(c_.rows) < few || rows_ < 2) return;
    const double bytes = static_cast<double>(columns_ * size_bytes(c_.b.buffer->dtype));
    const auto l1 = static_cast<double>(x_.l1_bytes());
    // Rows of a product are as long as the panel; those of a window overlap.
    const double rows =
        c_.rows.empty() ? static_cast<double>(rows_ * size_bytes(c_.a.buffer->dtype)) : 0;
    if ((bytes + rows) * static_cast<double>(depth) <= (rows > 0 ? 0.8 : kPanelShare) * l1) return;
    std::size_t longest = c_.reduce.back();
    for (const std::size_t r : c_.reduce) {
      if (s_.extent(r) > s_.extent(longest)) longest = r;
    }
    const std::int64_t extent = s_.extent(longest);
    const double rest = static_cast<double>(depth / std::max<std::int64_t>(1, extent));
    auto length = static_cast<std::int64_t>(kBlockShare * l1 / (bytes * rest));
    length = std::max(kMinBlock, length / 8 * 8);
    const std::int64_t even = even_part(parts(extent, 8), length / 8) * 8;
    if (even >= extent) return;
    block_axis_ = static_cast<int>(longest);
    block_ = even;
  }

  // Splits the reduce loops: `outer` gets the loop over blocks, the result is what runs inside the
  // tile, the innermost part unrolled.
  Loops split_reduce(Loops* outer) {
    Loops out;
    for (std::size_t n = 0; n < c_.reduce.size(); ++n) {
      const std::size_t axis = c_.reduce[n];
      std::string name = s_.axis_name(axis);
      const bool blocked = static_cast<int>(axis) == block_axis_;
      const std::int64_t extent = blocked ? block_ : s_.extent(axis);
      const std::int64_t unroll = n + 1 == c_.reduce.size() ? unroll_length(extent) : 1;
      Loops steps;
      if (unroll > 1 && unroll < extent) {
        steps = x_.writer.split(s_.op.name, name, {unroll});
        name = steps[0];
        steps.erase(steps.begin());
      }
      if (blocked) {
        // The last block is shorter: a bound of the loop, not another copy of it.
        const Loops l =
            x_.writer.split(s_.op.name, name, {extent / unroll}, schedule::Tail::kGuard);
        outer->push_back(l[0]);
        name = l[1];
      }
      out.push_back(name);
      append(&out, steps);
    }
    unroll_last(out);
    return out;
  }

  // A short innermost axis is unrolled whole, together with the next one if that is short too.
  std::int64_t unroll_length(std::int64_t extent) const {
    const std::int64_t tile = rows_ * parts(columns_, lanes_);
    if (extent <= 8 && extent * tile <= kMaxUnrolledBody) return extent;
    const bool vector_operand = !pack_a_ && c_.a.strides[c_.reduce.back()] == 1;
    if (!vector_operand) return tile >= 16 ? 1 : 2;
    for (const std::int64_t n : {8, 4, 2}) {
      if (n * tile <= kMaxBody && (extent % n == 0 || n == 4)) return n;
    }
    return 1;
  }

  void unroll_last(const Loops& loops) {
    const std::int64_t tile = rows_ * parts(columns_, lanes_);
    const std::size_t last = c_.reduce.back();
    const std::int64_t extent = static_cast<int>(last) == block_axis_ ? block_ : s_.extent(last);
    const std::int64_t unroll = unroll_length(extent);
    if (unroll <= 1 && extent != 1) return;
    x_.writer.unroll(s_.op.name, loops.back());
    if (unroll < extent || c_.reduce.size() < 2 || c_.a.conditional) return;
    const std::size_t next = c_.reduce[c_.reduce.size() - 2];
    if (static_cast<int>(next) == block_axis_) return;
    if (s_.extent(next) <= 8 && s_.extent(next) * extent * tile <= kMaxUnrolledBody)
      x_.writer.unroll(s_.op.name, loops[loops.size() - 2]);
  }

  void add_axes(const std::vector<std::size_t>& axes, std::vector<OuterLoop>* out) const {
    for (const std::size_t i : axes) out->push_back({host_axis(i), s_.extent(i), false});
  }

  static void append(Loops* out, const Loops& more) {
    out->insert(out->end(), more.begin(), more.end());
  }

  Loops unit_loops() const {
    Loops out;
    std::vector<bool> mapped(h_.rank(), false);
    for (const std::size_t a : host_.axis) mapped[a] = true;
    for (const std::size_t i : c_.units) out.push_back(host_axis(i));
    for (std::size_t i = 0; i < h_.rank(); ++i) {
      if (!mapped[i]) out.push_back(h_.axis_name(i));
    }
    return out;
  }

  double operations() const { return 2 * s_.iterations(); }

  // The sum over all of k is finished while the tile is in registers; so is the epilogue.
  void write_whole() {
    Writer& w = x_.writer;
    const std::string& host = h_.op.name;
    for (Pack& p : packs_) write_pack(x_, &p, !c_.batch.empty());
    std::vector<OuterLoop> outer;
    const bool copies = pack_a_ || pack_b_;
    if (!copies) hoist_rows(&outer);
    add_axes(c_.batch, &outer);
    const std::size_t batch = copies ? outer.size() : 0;
    const bool rows_first = x_.analysis.constant(c_.a.buffer) && !pack_b_;
    if (!rows_first) add_axes(c_.columns, &outer);
    const Loops vector = w.split(host, host_axis(c_.vector), {columns_});
    const OuterLoop n0{vector[0], parts(s_.extent(c_.vector), columns_),
                       s_.extent(c_.vector) % columns_ != 0};
    Loops tile;
    std::vector<OuterLoop> row_loops;
    split_rows(&row_loops, &tile);
    std::vector<OuterLoop> other_rows;
    if (!hoisted_) add_axes(c_.rows, &other_rows);
    if (rows_first) {
      outer.insert(outer.end(), other_rows.begin(), other_rows.end());
      outer.insert(outer.end(), row_loops.begin(), row_loops.end());
      add_axes(c_.columns, &outer);
      outer.push_back(n0);
    } else if (hoisted_ && tiles_before_batch()) {
      outer.insert(outer.begin() + static_cast<std::ptrdiff_t>(c_.rows.size()), row_loops.begin(),
                   row_loops.end());
      outer.push_back(n0);
    } else {
      order_loops(n0, row_loops, other_rows, &outer);
    }
    tile.push_back(vector[1]);

    Loops reduce_outer;
    const Loops reduce = split_reduce(&reduce_outer);
    Loops order = unit_loops();
    append(&order, names_of(outer));
    if (self_) append(&order, reduce);
    append(&order, tile);
    w.reorder(host, order);
    if (c_.row >= 0) w.unroll(host, tile[0]);
    w.vectorize(host, vector[1]);
    outer = share_out(host, outer, batch, outer.size() > 1 ? outer.size() - 1 : 1);
    if (!self_) attach_tile(outer.back().name, reduce);
    attach_packs(outer);
  }

  // Entries of the batch lie within what a step of the row passes over.
  bool beside(std::size_t batch, std::size_t row) const {
    return c_.a.strides[batch] > 0 && c_.a.strides[batch] < c_.a.strides[row];
  }

  // Batch entries that lie side by side in memory (groups of channels) go inside the rows; so does
  // everything where conditions of the product are cut off the loops, which fused loops prevent.
  void hoist_rows(std::vector<OuterLoop>* outer) {
    const bool interleaved = std::any_of(c_.batch.begin(), c_.batch.end(), [&](std::size_t b) {
      return std::any_of(c_.rows.begin(), c_.rows.end(),
                         [&](std::size_t r) { return beside(b, r); });
    });
    if (!interleaved && !c_.a.conditional) return;
    add_axes(c_.rows, outer);
    hoisted_ = true;
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

  // Rows in panels that stay in L2 while columns change, then tiles.
  void split_rows(std::vector<OuterLoop>* loops, Loops* tile) {
    if (c_.row < 0) return;
    const std::int64_t extent = row_extent();
    const double row_bytes =
        static_cast<double>(product(c_.reduce)) * size_bytes(c_.a.buffer->dtype);
    const auto panel = static_cast<std::int64_t>(static_cast<double>(x_.l2_bytes()) / 2 /
                                                 row_bytes / static_cast<double>(rows_));
    if (c_.rows.empty() && panel >= 4 && extent > panel * rows_) {
      const std::int64_t per_block = even_part(parts(extent, rows_), panel);
      const Loops l = x_.writer.split(h_.op.name, row_name(h_), {per_block, rows_});
      loops->push_back({l[0], parts(extent, per_block * rows_), extent % (per_block * rows_) != 0});
      loops->push_back({l[1], per_block, false});
      tile->push_back(l[2]);
      return;
    }
    const Loops l = x_.writer.split(h_.op.name, row_name(h_), {rows_});
    loops->push_back({l[0], parts(extent, rows_), extent % rows_ != 0});
    tile->push_back(l[1]);
  }

  // Columns outside: a panel of b stays in L1 while rows stream past it. Rows outside where all of
  // b fits L2 and there are outer rows to share out, or where columns are too few to share out.
  void order_loops(const OuterLoop& n0, const std::vector<OuterLoop>& rows,
                   const std::vector<OuterLoop>& other_rows, std::vector<OuterLoop>* outer) const {
    double b_bytes =
        static_cast<double>(s_.extent(c_.vector) * product(c_.columns) * product(c_.reduce)) *
        size_bytes(c_.b.buffer->dtype);
    const bool fits = b_bytes <= static_cast<double>(x_.l2_bytes()) / 2;
    std::int64_t outer_rows = 1;
    for (const OuterLoop& l : other_rows) outer_rows *= l.count;
    if (fits && outer_rows >= 2 * x_.target.cores) {
      outer->insert(outer->end(), other_rows.begin(), other_rows.end());
      outer->push_back(n0);
      outer->insert(outer->end(), rows.begin(), rows.end());
      return;
    }
    if (rows.size() == 2) outer->push_back(rows[0]);
    const bool few_columns = other_rows.empty() && rows.size() == 1 &&
                             n0.count < 2 * x_.target.cores && rows[0].count > n0.count;
    if (few_columns) outer->push_back(rows[0]);
    outer->push_back(n0);
    outer->insert(outer->end(), other_rows.begin(), other_rows.end());
    if (!rows.empty() && !few_columns) outer->push_back(rows.back());
  }

  // Copies made once per batch entry must find their loop: only batch loops are fused with it.
  std::vector<OuterLoop> share_out(const std::string& host, std::vector<OuterLoop> outer,
                                   std::size_t batch, std::size_t limit) {
    const bool copies =
        std::any_of(packs_.begin(), packs_.end(), [](const Pack& p) { return p.copies; });
    const bool parallel = Context::worth_threads(operations());
    if (c_.a.conditional && parallel) {
      const auto longest = std::max_element(
          outer.begin(),
          outer.begin() + static_cast<std::ptrdiff_t>(std::min(limit, c_.rows.size() + 1)),
          [](const OuterLoop& l, const OuterLoop& r) { return l.count < r.count; });
      x_.writer.parallel(host, longest->name);
      return outer;
    }
    if (!copies || batch == 0) {
      return parallel ? make_parallel(x_, host, std::move(outer), limit) : outer;
    }
    std::int64_t count = 1;
    for (std::size_t i = 0; i < batch; ++i) count *= outer[i].count;
    Loops fused;
    for (std::size_t i = 0; i < batch; ++i) fused.push_back(outer[i].name);
    const OuterLoop all{x_.writer.fuse(host, fused), count, false};
    outer.erase(outer.begin(), outer.begin() + static_cast<std::ptrdiff_t>(batch));
    if (parallel && count >= x_.target.cores) {
      x_.writer.parallel(host, all.name);
    } else if (parallel && limit > batch) {
      outer = make_parallel(x_, host, std::move(outer), limit - batch);
    }
    outer.insert(outer.begin(), all);
    batch_loop_ = 0;
    return outer;
  }

  // The contraction computes one tile at `loop` of the host.
  void attach_tile(const std::string& loop, const Loops& reduce) {
    Writer& w = x_.writer;
    const std::string& name = s_.op.name;
    w.compute_at(name, h_.op.name, loop);
    Loops order;
    for (std::size_t i = 0; i < s_.rank(); ++i) {
      if (i != c_.vector && static_cast<int>(i) != c_.row) order.push_back(s_.axis_name(i));
    }
    append(&order, reduce);
    if (c_.row >= 0) {
      order.push_back(s_.axis_name(static_cast<std::size_t>(c_.row)));
      w.unroll(name, order.back());
    }
    order.push_back(s_.axis_name(c_.vector));
    w.vectorize(name, order.back());
    w.reorder(name, order);
  }

  // Sums are completed in memory, block of k by block of k, for a part of the result that stays in
  // L2.
  void write_blocked() {
    Writer& w = x_.writer;
    for (Pack& p : packs_) write_pack(x_, &p, !c_.batch.empty());
    std::vector<OuterLoop> outer;
    add_axes(c_.batch, &outer);
    const std::size_t batch = outer.size();
    add_axes(c_.columns, &outer);
    const std::int64_t wide = block_columns(), tall = block_rows();
    if (self_) {
      write_blocked_self(wide, tall, batch, std::move(outer));
    } else {
      outer = write_blocked_host(wide, tall, batch, std::move(outer));
      w.compute_at(s_.op.name, h_.op.name, outer.back().name);
      Loops order;
      for (const auto* axes : {&c_.units, &c_.batch, &c_.columns}) {
        for (const std::size_t i : *axes) order.push_back(s_.axis_name(i));
      }
      write_blocked_tiles(w.split(s_.op.name, s_.axis_name(c_.vector), {columns_}),
                          w.split(s_.op.name, row_name(s_), {rows_}), std::move(order));
      attach_packs(outer);
    }
  }

  void write_blocked_self(std::int64_t wide, std::int64_t tall, std::size_t batch,
                          std::vector<OuterLoop> outer) {
    Writer& w = x_.writer;
    const std::string& name = s_.op.name;
    const std::int64_t columns = s_.extent(c_.vector), rows = row_extent();
    Loops vector = w.split(name, s_.axis_name(c_.vector), {wide / columns_, columns_});
    outer.push_back({vector[0], parts(columns, wide), columns % wide != 0});
    vector.erase(vector.begin());
    Loops row;
    if (tall < rows) {
      row = w.split(name, row_name(s_), {tall / rows_, rows_});
      outer.push_back({row[0], parts(rows, tall), rows % tall != 0});
      row.erase(row.begin());
    } else {
      row = w.split(name, row_name(s_), {rows_});
    }
    Loops order = unit_loops();
    append(&order, names_of(outer));
    write_blocked_tiles(vector, row, std::move(order));
    outer = share_out(name, outer, batch, outer.size());
    attach_packs(outer);
  }

  // The host takes what is finished of one part after the other.
  std::vector<OuterLoop> write_blocked_host(std::int64_t wide, std::int64_t tall, std::size_t batch,
                                            std::vector<OuterLoop> outer) {
    Writer& w = x_.writer;
    const std::string& host = h_.op.name;
    const std::int64_t columns = s_.extent(c_.vector), rows = row_extent();
    const Loops vector = w.split(host, host_axis(c_.vector), {wide});
    outer.push_back({vector[0], parts(columns, wide), columns % wide != 0});
    Loops inner;
    for (const std::size_t i : c_.rows) inner.push_back(host_axis(i));
    if (tall < rows) {
      const Loops row = w.split(host, row_name(h_), {tall});
      outer.push_back({row[0], parts(rows, tall), rows % tall != 0});
      inner.push_back(row[1]);
    } else {
      inner.push_back(row_name(h_));
    }
    Loops order = unit_loops();
    append(&order, names_of(outer));
    append(&order, inner);
    vectorize_last(x_, h_, vector[1], wide, &order);
    w.reorder(host, order);
    return share_out(host, outer, batch, outer.size());
  }

  // Inside one part: blocks of k, then tiles. Rows outside columns where there is one axis of rows:
  // the panel of a stays in L1, and a row of tiles lies side by side in memory.
  void write_blocked_tiles(const Loops& vector, const Loops& row, Loops order) {
    Writer& w = x_.writer;
    const std::string& name = s_.op.name;
    Loops blocks;
    const Loops reduce = split_reduce(&blocks);
    append(&order, blocks);
    if (c_.rows.empty()) {
      append(&order, {row[0], vector[0]});
    } else {
      order.push_back(vector[0]);
      for (const std::size_t i : c_.rows) order.push_back(s_.axis_name(i));
      order.push_back(row[0]);
    }
    append(&order, reduce);
    append(&order, {row[1], vector[1]});
    w.reorder(name, order);
    w.unroll(name, row[1]);
    w.vectorize(name, vector[1]);
  }

  void attach_packs(const std::vector<OuterLoop>& outer) {
    for (const Pack& p : packs_) {
      if (p.copies && batch_loop_ >= 0) {
        x_.writer.compute_at(p.name, h_.op.name, outer[static_cast<std::size_t>(batch_loop_)].name);
      }
    }
  }

  // `stage` is the contraction or its host.
  const std::string& row_name(const Stage& stage) const {
    const auto axis = static_cast<std::size_t>(c_.row);
    return &stage == &s_ ? s_.axis_name(axis) : h_.axis_name(host_.axis[axis]);
  }

  // Whole tiles; where possible in equal parts.
  static std::int64_t even_part(std::int64_t tiles, std::int64_t most) {
    if (tiles <= most) return tiles;
    for (std::int64_t n = most; 2 * n > most; --n) {
      if (tiles % n == 0) return n;
    }
    return parts(tiles, parts(tiles, most));
  }

  // Convolutions finish one tile of columns over all rows. Products: a block of b in half of L2.
  std::int64_t block_columns() const {
    if (!c_.rows.empty()) return columns_;
    const double per_tile = static_cast<double>(block_ * columns_ * size_bytes(c_.b.buffer->dtype));
    const auto fit = static_cast<std::int64_t>(static_cast<double>(x_.l2_bytes()) / 3 / per_tile);
    const std::int64_t tiles = parts(s_.extent(c_.vector), columns_);
    return columns_ * even_part(tiles, std::max<std::int64_t>(1, std::min(fit, tiles)));
  }

  // Rows of a part: enough to use what is read of b, few enough to give every core several parts.
  std::int64_t block_rows() const {
    if (!c_.rows.empty()) return row_extent();
    return rows_ * even_part(parts(row_extent(), rows_), parts(kPartRows, rows_));
  }

  Context& x_;
  Contraction c_;
  Host host_;
  const Stage& s_;
  const Stage& h_;
  bool self_;
  int lanes_ = 1;
  bool pack_a_ = false, pack_b_ = false;
  std::int64_t rows_ = 1, columns_ = 1;
  int block_axis_ = -1;
  std::int64_t block_ = 0;
  bool hoisted_ = false;  // the loops over rows stand outside of all others
  int batch_loop_ = -1;   // index among the outer loops of the one that copies are made in
  std::vector<Pack> packs_;
};

// Fewer columns than lanes: vectors lie along the rows instead, where a stage of the Dag writes
// what they read and may write it in that order. Returns the axis and sets the layout; -1: none.
int turn_to_rows(Context& x, const Contraction& c) {
  const Stage& s = x.stage(c.stage);
  const int lanes = x.lanes(s.dtype());
  if (s.extent(c.vector) >= lanes || c.row < 0 || c.a.conditional) return -1;
  const auto row = static_cast<std::size_t>(c.row);
  const int p = x.analysis.producer(c.a.buffer);
  if (s.extent(row) < kVectorsPerRow * lanes || p < 0 || !x.analysis.constant(c.b.buffer))
    return -1;
  const Stage& producer = x.stage(static_cast<std::size_t>(p));
  if (producer.output || producer.reduces() || producer.users.size() != 1) return -1;
  int along = -1;
  schedule::Layout layout;
  for (std::size_t d = 0; d < c.a.indices.size(); ++d) {
    const Index& index = c.a.indices[d];
    const auto term = std::find_if(index.terms.begin(), index.terms.end(),
                                   [&](const IndexTerm& t) { return t.axis == row; });
    if (term == index.terms.end()) {
      layout.push_back({static_cast<int>(d), 1, 0});
    } else if (along >= 0 || term->coefficient != 1) {
      return -1;
    } else {
      along = static_cast<int>(d);
    }
  }
  if (along < 0 || c.a.irregular[row]) return -1;
  layout.push_back({along, 1, 0});
  x.writer.layout(c.a.buffer->name, layout);
  return c.row;
}

}  // namespace

bool schedule_contraction(Context& context, std::size_t stage) {
  const Stage& s = context.stage(stage);
  Host host{.stage = stage, .axis = {}};
  for (std::size_t i = 0; i < s.rank(); ++i) host.axis.push_back(i);
  if (const auto found = find_host(context.analysis, stage); found && !context.done[found->stage])
    host = *found;
  const Stage& h = context.stage(host.stage);
  // Vectors lie along the last axis that is written.
  int vector = -1;
  for (std::size_t i = 0; i < s.rank(); ++i) {
    const bool later = vector < 0 || host.axis[i] > host.axis[static_cast<std::size_t>(vector)];
    if (h.extent(host.axis[i]) > 1 && later) vector = static_cast<int>(i);
  }
  if (vector < 0) return false;
  auto contraction = match_contraction(context.analysis, stage, static_cast<std::size_t>(vector));
  if (!contraction) return false;
  if (schedule_byte_dots(context, *contraction, host)) return true;
  if (const int row = turn_to_rows(context, *contraction); row >= 0) {
    contraction = match_contraction(context.analysis, stage, static_cast<std::size_t>(row));
    TESSERA_CHECK(contraction.has_value(), "the rows of a contraction are read by one operand");
  }
  // Without copies, vectors must be contiguous in memory, or it is a dot product.
  const Access& b = contraction->b;
  const bool dot = !context.analysis.constant(b.buffer) && b.strides[contraction->vector] != 1 &&
                   contraction->row < 0 && b.strides[contraction->reduce.back()] == 1;
  if (dot) return false;
  ContractionWriter(context, std::move(*contraction), std::move(host)).run();
  return true;
}

}  // namespace tessera::space
