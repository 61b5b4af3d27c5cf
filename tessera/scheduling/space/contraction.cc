#include "tessera/scheduling/space/contraction.h"

#include <algorithm>
#include <optional>

#include "tessera/scheduling/space/contraction_tiling.h"
#include "tessera/scheduling/space/pack.h"
#include "tessera/scheduling/space/pointwise.h"
#include "tessera/scheduling/space/reduction.h"
#include "tessera/scheduling/space/share.h"
#include "tessera/scheduling/space/tile.h"
#include "tessera/scheduling/space/vector_count.h"
#include "tessera/support/check.h"

namespace tessera::space {
namespace {

// Full vectors along a row that takes the place of columns. Fewer are enough where columns would
// fill a quarter of a vector at most, or where that saves so many products of vectors for every
// element that is stored along the row (x86-64 with AVX-512: 12 channels break even at 12 taps).
// Groups of channels read too little of a row for that.
constexpr std::int64_t kVectorsPerRow = 4, kVectorsPerShortRow = 2;
constexpr double kSavedPerElement = 10;

// Writes one contraction. The nest is the stage itself where there is no epilogue.
class ContractionWriter {
 public:
  ContractionWriter(Context& context, Contraction c, Nest nest)
      : context_(context),
        product_(std::move(c)),
        nest_(std::move(nest)),
        stage_(context.stage(product_.stage)),
        nest_stage_(context.stage(nest_.stage)),
        self_(nest_.stage == product_.stage),
        front_(served_front(context)),
        tiling_(tile_contraction(context, product_, nest_)) {}

  void run() {
    make_packs();
    if (tiling_.block > 0) {
      write_blocked();
    } else {
      write_whole();
    }
    context_.done[product_.stage] = true;
    context_.done[nest_.stage] = true;
  }

 private:
  std::string nest_axis(std::size_t axis) const { return nest_stage_.axis_name(nest_.axis[axis]); }

  void make_packs() {
    const bool a_constant = context_.analysis.constant(product_.a.buffer);
    const bool b_constant = context_.analysis.constant(product_.b.buffer);
    if (b_constant || tiling_.pack_b) {
      packs_.push_back(make_pack(context_, product_, product_.b, product_.vector, tiling_.columns,
                                 tiling_.block_axis, tiling_.block, !b_constant));
    }
    for (const Access& scale : product_.scales) {
      if (b_constant && scale.uses(product_.vector))
        packs_.push_back(
            make_pack(context_, product_, scale, product_.vector, tiling_.columns, -1, 0, false));
    }
    if (tiling_.copy_rows) {
      packs_.push_back(make_pack(context_, product_, product_.a,
                                 static_cast<std::size_t>(product_.row), 1, tiling_.block_axis,
                                 tiling_.block, true));
    } else if (tiling_.rows > 1 && (a_constant || tiling_.pack_a) &&
               product_.a.buffer != product_.b.buffer) {
      packs_.push_back(make_pack(context_, product_, product_.a,
                                 static_cast<std::size_t>(product_.row), tiling_.rows,
                                 tiling_.block_axis, tiling_.block, !a_constant));
    }
  }

  // Splits the reduce loops: `outer` gets the loop over blocks, the result is what runs inside the
  // tile, the innermost part unrolled.
  Loops split_reduce(Loops* outer) {
    Loops out;
    for (std::size_t n = 0; n < product_.reduce.size(); ++n) {
      const std::size_t axis = product_.reduce[n];
      std::string name = stage_.axis_name(axis);
      const bool blocked = static_cast<int>(axis) == tiling_.block_axis;
      const std::int64_t extent = blocked ? tiling_.block : stage_.extent(axis);
      const std::int64_t unroll = n + 1 == product_.reduce.size() ? tiling_.unroll : 1;
      Loops steps;
      std::int64_t length = extent;
      if (unroll > 1 && unroll < extent) {
        steps = context_.writer.split(stage_.op.name, name, {unroll});
        name = steps[0];
        steps.erase(steps.begin());
        length = extent / unroll;
      }
      if (blocked) {
        // The last block is shorter: a bound of the loop, not another copy of it.
        const Loops l =
            context_.writer.split(stage_.op.name, name, {length}, schedule::Tail::kGuard);
        outer->push_back(l[0]);
        name = l[1];
      }
      out.push_back(name);
      append(&out, steps);
    }
    unroll_last(out);
    return out;
  }

  void unroll_last(const Loops& loops) {
    const std::size_t last = product_.reduce.back();
    const std::int64_t extent =
        static_cast<int>(last) == tiling_.block_axis ? tiling_.block : stage_.extent(last);
    const bool unrolled = tiling_.unroll > 1 || extent == 1;
    if (unrolled) context_.writer.unroll(stage_.op.name, loops.back());
    std::size_t steady = loops.size() - (unrolled ? 1 : 0);  // loops that stay loops
    if (unrolled && tiling_.unroll >= extent && tiling_.unroll_next) {
      context_.writer.unroll(stage_.op.name, loops[loops.size() - 2]);
      --steady;
    }
    if (tiling_.prefetch > 0 && steady > 0) {
      const auto pack = std::find_if(packs_.begin(), packs_.end(),
                                     [&](const Pack& p) { return p.reads == product_.b.buffer; });
      const std::string& buffer =
          pack != packs_.end() && !pack->name.empty() ? pack->name : product_.b.buffer->name;
      const std::string& step =
          tiling_.prefetch_steps && tiling_.unroll < extent ? loops.back() : loops[steady - 1];
      context_.writer.prefetch(stage_.op.name, step, buffer, tiling_.prefetch);
      if (tiling_.prefetch_next) context_.writer.prefetch(stage_.op.name, step, buffer, 0);
    }
  }

  void add_axes(const std::vector<std::size_t>& axes, std::vector<OuterLoop>* out) const {
    for (const std::size_t i : axes) out->push_back({nest_axis(i), stage_.extent(i)});
  }

  static void append(Loops* out, const Loops& more) {
    out->insert(out->end(), more.begin(), more.end());
  }

  Loops unit_loops() const {
    Loops out;
    std::vector<bool> mapped(nest_stage_.rank(), false);
    for (const std::size_t a : nest_.axis) mapped[a] = true;
    for (const std::size_t i : product_.units) out.push_back(nest_axis(i));
    for (std::size_t i = 0; i < nest_stage_.rank(); ++i) {
      if (!mapped[i]) out.push_back(nest_stage_.axis_name(i));
    }
    return out;
  }

  // The sum over all of k is finished while the tile is in registers; so is the epilogue.
  void write_whole() {
    Writer& w = context_.writer;
    const std::string& nest = nest_stage_.op.name;
    for (Pack& p : packs_) write_pack(context_, &p, copies_per_entry());
    std::vector<OuterLoop> outer;
    const bool hoisted = tiling_.hoist != Hoist::kNone;
    if (hoisted) add_axes(product_.rows, &outer);
    add_axes(product_.batch, &outer);
    const std::size_t batch = tiling_.pack_a || tiling_.pack_b ? outer.size() : 0;
    if (tiling_.order != LoopOrder::kRowsFirst) add_axes(product_.columns, &outer);
    const Loops vector = w.split(nest, nest_axis(product_.vector), {tiling_.columns});
    const OuterLoop n0{vector[0], parts_of(stage_.extent(product_.vector), tiling_.columns)};
    Loops tile;
    std::vector<OuterLoop> row_loops, other_rows;
    split_rows(&row_loops, &tile);
    if (!hoisted) add_axes(product_.rows, &other_rows);
    order_loops(n0, row_loops, other_rows, &outer);
    tile.push_back(vector[1]);
    const std::size_t inside = row_loops.size() + 1;  // loops within one outer row
    if (by_rows()) shared_loops_ = outer.size() - inside;

    Loops reduce_outer;
    const Loops reduce = split_reduce(&reduce_outer);
    Loops order = unit_loops();
    append(&order, names_of(outer));
    if (self_) append(&order, reduce);
    append(&order, tile);
    w.reorder(nest, order);
    if (product_.row >= 0) w.unroll(nest, tile[0]);
    w.vectorize(nest, vector[1]);
    outer = share(nest, std::move(outer), batch);
    if (!self_) attach_tile(outer.back().name, reduce);
    if (by_rows()) {
      w.compute_at(context_.stage(front_->front).op.name, nest,
                   outer[outer.size() - inside - 1].name);
    }
    attach_packs(outer);
  }

  bool by_rows() const { return front_ && front_->product == product_.stage; }

  // Rows in panels that stay in L2 while columns change, then tiles.
  void split_rows(std::vector<OuterLoop>* loops, Loops* tile) {
    if (product_.row < 0) return;
    const std::int64_t extent = row_extent(stage_, product_);
    if (tiling_.panel > 0) {
      const std::int64_t length = tiling_.panel * tiling_.rows;
      const Loops l = context_.writer.split(nest_stage_.op.name, row_name(nest_stage_),
                                            {tiling_.panel, tiling_.rows}, tiling_.row_tail);
      loops->push_back({l[0], parts_of(extent, length)});
      loops->push_back({l[1], tiling_.panel});
      tile->push_back(l[2]);
      return;
    }
    const Loops l = context_.writer.split(nest_stage_.op.name, row_name(nest_stage_),
                                          {tiling_.rows}, tiling_.row_tail);
    loops->push_back({l[0], parts_of(extent, tiling_.rows)});
    tile->push_back(l[1]);
  }

  void order_loops(const OuterLoop& n0, const std::vector<OuterLoop>& rows,
                   const std::vector<OuterLoop>& other_rows, std::vector<OuterLoop>* outer) const {
    const auto add = [&](const std::vector<OuterLoop>& more) {
      outer->insert(outer->end(), more.begin(), more.end());
    };
    if (tiling_.hoist == Hoist::kTiles && tiling_.order != LoopOrder::kRowsFirst) {
      outer->insert(outer->begin() + static_cast<std::ptrdiff_t>(product_.rows.size()),
                    rows.begin(), rows.end());
      outer->push_back(n0);
      return;
    }
    switch (tiling_.order) {
      case LoopOrder::kColumns:
        if (rows.size() == 2) outer->push_back(rows[0]);
        outer->push_back(n0);
        add(other_rows);
        if (!rows.empty()) outer->push_back(rows.back());
        return;
      case LoopOrder::kOuterRows:
        add(other_rows);
        outer->push_back(n0);
        add(rows);
        return;
      case LoopOrder::kRows:
      case LoopOrder::kRowsFirst:
        add(other_rows);
        add(rows);
        if (tiling_.order == LoopOrder::kRowsFirst) add_axes(product_.columns, outer);
        outer->push_back(n0);
        return;
    }
  }

  // Copies are made once per batch entry where the entries give every core its parts, and then
  // they must find their loop: only batch loops are fused with it.
  bool copies_per_entry() const {
    return !product_.batch.empty() &&
           points_of(stage_, product_.batch) >= wanted_parts(context_) / 2;
  }

  std::vector<OuterLoop> share(const std::string& nest, std::vector<OuterLoop> outer,
                               std::size_t batch) {
    if (tiling_.share_tiles) return outer;
    const bool copies =
        std::any_of(packs_.begin(), packs_.end(), [](const Pack& p) { return p.copies; });
    if (!copies || batch == 0 || !copies_per_entry()) {
      const std::size_t limit = by_rows() ? shared_loops_ : outer.size();
      return share_out(context_, nest, tiling_.sharing, std::move(outer), limit);
    }
    std::int64_t count = 1;
    for (std::size_t i = 0; i < batch; ++i) count *= outer[i].count;
    Loops fused;
    for (std::size_t i = 0; i < batch; ++i) fused.push_back(outer[i].name);
    const OuterLoop all{tiling_.sharing.parallel
                            ? share_loops(context_.writer, nest, fused, batch)[0]
                            : context_.writer.fuse(nest, fused),
                        count};
    outer.erase(outer.begin(), outer.begin() + static_cast<std::ptrdiff_t>(batch));
    outer.insert(outer.begin(), all);
    batch_loop_ = 0;
    return outer;
  }

  // The contraction computes one tile at `loop` of the nest.
  void attach_tile(const std::string& loop, const Loops& reduce) {
    Writer& w = context_.writer;
    const std::string& name = stage_.op.name;
    w.compute_at(name, nest_stage_.op.name, loop);
    Loops order;
    for (std::size_t i = 0; i < stage_.rank(); ++i) {
      if (i != product_.vector && static_cast<int>(i) != product_.row)
        order.push_back(stage_.axis_name(i));
    }
    append(&order, reduce);
    if (product_.row >= 0) {
      order.push_back(stage_.axis_name(static_cast<std::size_t>(product_.row)));
      w.unroll(name, order.back());
    }
    order.push_back(stage_.axis_name(product_.vector));
    w.vectorize(name, order.back());
    w.reorder(name, order);
  }

  // Sums are completed in memory, block of k by block of k, for a part of the result that stays in
  // L2.
  void write_blocked() {
    Writer& w = context_.writer;
    for (Pack& p : packs_) write_pack(context_, &p, copies_per_entry() || tiling_.copy_blocks);
    std::vector<OuterLoop> outer;
    add_axes(product_.batch, &outer);
    const std::size_t batch = outer.size();
    if (outer_rows()) add_axes(product_.rows, &outer);
    add_axes(product_.columns, &outer);
    if (self_) {
      write_blocked_self(batch, std::move(outer));
    } else {
      outer = write_blocked_nest(batch, std::move(outer));
      w.compute_at(stage_.op.name, nest_stage_.op.name, outer.back().name);
      Loops order;
      for (const auto* axes : {&product_.units, &product_.batch, &product_.columns}) {
        for (const std::size_t i : *axes) order.push_back(stage_.axis_name(i));
      }
      if (outer_rows()) append(&order, outer_row_names());
      // One after the other: arguments of a call would be written in an order of the compiler's.
      const Loops vector =
          w.split(stage_.op.name, stage_.axis_name(product_.vector), {tiling_.columns});
      const Loops row = w.split(stage_.op.name, tile_axis(), {tiling_.rows}, tiling_.row_tail);
      write_blocked_tiles(vector, row, {}, std::move(order));
      attach_packs(outer);
    }
  }

  bool outer_rows() const { return tiling_.part_order == PartOrder::kOuterRows; }
  Loops outer_row_names() const {
    Loops out;
    for (const std::size_t i : product_.rows) out.push_back(stage_.axis_name(i));
    return out;
  }

  // The loop of the contraction that its tiles take rows from.
  std::string tile_axis() {
    const std::string& row = row_name(stage_);
    if (!tiling_.pixels) return row;
    return context_.writer.fuse(stage_.op.name, {stage_.axis_name(product_.rows.back()), row});
  }

  void add_part(const OuterLoop& columns, const std::optional<OuterLoop>& rows,
                std::vector<OuterLoop>* outer) const {
    const bool rows_first = tiling_.part_order == PartOrder::kRows;
    if (rows && rows_first) outer->push_back(*rows);
    outer->push_back(columns);
    if (rows && !rows_first) outer->push_back(*rows);
  }

  void write_blocked_self(std::size_t batch, std::vector<OuterLoop> outer) {
    Writer& w = context_.writer;
    const std::string& name = stage_.op.name;
    const std::int64_t columns = stage_.extent(product_.vector),
                       rows = row_extent(stage_, product_);
    Loops vector = w.split(name, stage_.axis_name(product_.vector),
                           {tiling_.wide / tiling_.columns, tiling_.columns});
    const OuterLoop wide{vector[0], parts_of(columns, tiling_.wide)};
    vector.erase(vector.begin());
    Loops row, panel;
    std::optional<OuterLoop> tall;
    if (tiling_.panel > 0) {
      row = w.split(name, row_name(stage_), {tiling_.panel, tiling_.rows}, tiling_.row_tail);
      panel.push_back(row[0]);
      row.erase(row.begin());
    } else if (tiling_.tall < rows) {
      row = w.split(name, row_name(stage_), {tiling_.tall / tiling_.rows, tiling_.rows},
                    tiling_.row_tail);
      tall = OuterLoop{row[0], parts_of(rows, tiling_.tall)};
      row.erase(row.begin());
    } else {
      row = w.split(name, tile_axis(), {tiling_.rows}, tiling_.row_tail);
    }
    add_part(wide, tall, &outer);
    Loops order = unit_loops();
    append(&order, names_of(outer));
    const std::string block = write_blocked_tiles(vector, row, panel, std::move(order));
    outer = share(name, std::move(outer), batch);
    if (!tiling_.copy_blocks) return attach_packs(outer);
    for (const Pack& p : packs_) {
      const bool b = p.reads == product_.b.buffer;
      if (p.copies) w.compute_at(p.name, name, b || panel.empty() ? block : panel[0]);
    }
  }

  // The nest takes what is finished of one part after the other.
  std::vector<OuterLoop> write_blocked_nest(std::size_t batch, std::vector<OuterLoop> outer) {
    Writer& w = context_.writer;
    const std::string& nest = nest_stage_.op.name;
    const std::int64_t columns = stage_.extent(product_.vector),
                       rows = row_extent(stage_, product_);
    const Loops vector = w.split(nest, nest_axis(product_.vector), {tiling_.wide});
    const OuterLoop wide{vector[0], parts_of(columns, tiling_.wide)};
    Loops inner;
    for (const std::size_t i : product_.rows) {
      if (!outer_rows()) inner.push_back(nest_axis(i));
    }
    std::optional<OuterLoop> tall;
    if (tiling_.tall < rows) {
      const Loops row = w.split(nest, row_name(nest_stage_), {tiling_.tall});
      tall = OuterLoop{row[0], parts_of(rows, tiling_.tall)};
      inner.push_back(row[1]);
    } else {
      inner.push_back(row_name(nest_stage_));
    }
    add_part(wide, tall, &outer);
    Loops order = unit_loops();
    append(&order, names_of(outer));
    append(&order, inner);
    vectorize_part(context_, nest_stage_, vector[1], tiling_.wide, &order);
    w.reorder(nest, order);
    return share(nest, std::move(outer), batch);
  }

  // Inside one part: blocks of k, then tiles. Rows outside columns where there is one axis of rows:
  // the panel of a stays in L1, and a row of tiles lies side by side in memory. Returns the loop
  // over blocks.
  std::string write_blocked_tiles(const Loops& vector, const Loops& row, const Loops& panel,
                                  Loops order) {
    Writer& w = context_.writer;
    const std::string& name = stage_.op.name;
    Loops blocks;
    const Loops reduce = split_reduce(&blocks);
    append(&order, blocks);
    append(&order, panel);
    Loops tiles;
    for (const std::size_t i : product_.rows) {
      const bool fused = tiling_.pixels && i == product_.rows.back();
      if (!outer_rows() && !fused) tiles.push_back(stage_.axis_name(i));
    }
    tiles.push_back(row[0]);
    tiles.insert(tiling_.rows_outside ? tiles.end() : tiles.begin(), vector[0]);
    append(&order, tiles);
    append(&order, reduce);
    append(&order, {row[1], vector[1]});
    w.reorder(name, order);
    w.unroll(name, row[1]);
    w.vectorize(name, vector[1]);
    if (tiling_.share_tiles) share_loops(w, name, tiles, 1);
    return blocks.back();
  }

  void attach_packs(const std::vector<OuterLoop>& outer) {
    for (const Pack& p : packs_) {
      if (p.copies && batch_loop_ >= 0) {
        context_.writer.compute_at(p.name, nest_stage_.op.name,
                                   outer[static_cast<std::size_t>(batch_loop_)].name);
      }
    }
  }

  // `stage` is the contraction or its nest.
  const std::string& row_name(const Stage& stage) const {
    const auto axis = static_cast<std::size_t>(product_.row);
    return &stage == &stage_ ? stage_.axis_name(axis) : nest_stage_.axis_name(nest_.axis[axis]);
  }

  Context& context_;
  Contraction product_;
  Nest nest_;
  const Stage& stage_;
  const Stage& nest_stage_;
  bool self_;
  std::optional<WindowFront> front_;  // rows that this contraction, or another, computes
  ContractionTiling tiling_;
  int batch_loop_ = -1;           // index among the outer loops of the one that copies are made in
  std::size_t shared_loops_ = 0;  // by rows: outer loops that threads may share
  std::vector<Pack> packs_;
};

double elements_of(const ir::Buffer& buffer) {
  double out = 1;
  for (const std::int64_t d : buffer->shape) out *= static_cast<double>(d);
  return out;
}

// Has the stage that writes what `access` reads store it along this axis: vectors of it are then
// contiguous. False where no stage writes it, or not for this reader alone.
bool store_read_along(Context& x, const Access& access, std::size_t axis) {
  const int p = x.analysis.producer(access.buffer);
  if (p < 0 || access.conditional || access.irregular[axis]) return false;
  const Stage& producer = x.stage(static_cast<std::size_t>(p));
  if (producer.output || producer.reduces() || producer.users.size() != 1) return false;
  int along = -1;
  schedule::Layout layout;
  for (std::size_t d = 0; d < access.indices.size(); ++d) {
    const Index& index = access.indices[d];
    const auto term = std::find_if(index.terms.begin(), index.terms.end(),
                                   [&](const IndexTerm& t) { return t.axis == axis; });
    if (term == index.terms.end()) {
      layout.push_back({static_cast<int>(d), 1, 0});
    } else if (along >= 0 || term->coefficient != 1) {
      return false;
    } else {
      along = static_cast<int>(d);
    }
  }
  if (along < 0) return false;
  layout.push_back({along, 1, 0});
  x.writer.layout(access.buffer->name, layout);
  return true;
}

// Fewer columns than lanes: vectors lie along the rows instead, where a stage of the Dag writes
// what they read and may write it in that order. Returns the axis and sets the layout; -1: none.
int turn_to_rows(Context& x, const Contraction& c) {
  const Stage& s = x.stage(c.stage);
  const int lanes = x.lanes(s.dtype());
  if (s.extent(c.vector) >= lanes || c.row < 0) return -1;
  const auto row = static_cast<std::size_t>(c.row);
  const bool groups = std::any_of(c.batch.begin(), c.batch.end(), [&](std::size_t b) {
    return c.a.strides[b] > 0 && c.a.strides[b] < c.a.strides[row];
  });
  const std::int64_t columns = s.extent(c.vector), length = s.extent(row);
  const auto per_product = [&](std::int64_t elements) {
    return static_cast<double>(vectors_of(elements, lanes)) / static_cast<double>(elements);
  };
  const double saved =
      s.iterations() / elements_of(c.a.buffer) * (per_product(columns) - per_product(length));
  const bool short_row = 4 * columns <= lanes || saved > kSavedPerElement;
  const std::int64_t vectors = short_row && !groups ? kVectorsPerShortRow : kVectorsPerRow;
  if (length < vectors * lanes || !x.analysis.constant(c.b.buffer)) return -1;
  return store_read_along(x, c.a, row) ? c.row : -1;
}

// One column, of weights: windows along an image whose elements are channels apart. They are
// summed side by side where a stage of the Dag may write the image along them; a dot product for
// each would read the image again for every element of the window, and add up its lanes.
bool turn_to_windows(Context& x, const Contraction& c) {
  const Stage& s = x.stage(c.stage);
  if (!x.analysis.constant(c.a.buffer)) return false;
  if (s.extent(c.vector) < kVectorsPerShortRow * x.lanes(s.dtype())) return false;
  const bool overlap = s.iterations() >= 2 * elements_of(c.b.buffer);
  return overlap && store_read_along(x, c.b, c.vector);
}

// Sums lie as their vectors do: those of a tile are in registers then.
void store_along(Context& x, std::size_t stage, std::size_t axis) {
  const Stage& s = x.stage(stage);
  if (s.output) return;
  schedule::Layout layout;
  for (std::size_t d = 0; d < s.rank(); ++d) {
    if (d != axis) layout.push_back({static_cast<int>(d), 1, 0});
  }
  layout.push_back({static_cast<int>(axis), 1, 0});
  x.writer.layout(s.op.outputs[0]->name, layout);
}

}  // namespace

std::optional<PlacedContraction> place_contraction(Context& context, std::size_t stage) {
  const Stage& s = context.stage(stage);
  Nest nest{.stage = stage, .axis = {}};
  for (std::size_t i = 0; i < s.rank(); ++i) nest.axis.push_back(i);
  if (const auto found = find_nest(context.analysis, stage, context.target.gpu.block_threads > 0);
      found && !context.done[found->stage]) {
    // Computed with the sums, or in loops of its own.
    if (context.chooser.flag(s.op.name, "fuse_epilogue", PointKind::kLocation, true)) nest = *found;
  }
  const Stage& h = context.stage(nest.stage);
  int vector = -1;
  for (std::size_t i = 0; i < s.rank(); ++i) {
    const bool later = vector < 0 || nest.axis[i] > nest.axis[static_cast<std::size_t>(vector)];
    if (h.extent(nest.axis[i]) > 1 && later) vector = static_cast<int>(i);
  }
  if (vector < 0) return std::nullopt;
  auto contraction = match_contraction(context.analysis, stage, static_cast<std::size_t>(vector));
  if (!contraction) return std::nullopt;
  return PlacedContraction{std::move(*contraction), std::move(nest)};
}

bool schedule_contraction(Context& context, std::size_t stage) {
  auto placed = place_contraction(context, stage);
  if (!placed) return false;
  std::optional<Contraction> contraction = std::move(placed->contraction);
  Nest& nest = placed->nest;
  const auto front = served_front(context);
  bool by_rows = front && front->product == stage;
  if (by_rows &&
      (contraction->rows.empty() || !contraction->batch.empty() ||
       context.analysis.producer(contraction->a.buffer) != static_cast<int>(front->front))) {
    context.served.clear();
    by_rows = false;
  }
  if (schedule_block_dots(context, *contraction) || schedule_dots(context, *contraction, nest))
    return true;
  if (const int row = by_rows ? -1 : turn_to_rows(context, *contraction); row >= 0) {
    contraction = match_contraction(context.analysis, stage, static_cast<std::size_t>(row));
    TESSERA_CHECK(contraction.has_value(), "the rows of a contraction are read by one operand");
    store_along(context, stage, static_cast<std::size_t>(row));
  }
  // Without copies, vectors must be contiguous in memory, or it is a dot product.
  const Access& b = contraction->b;
  const bool dot = !context.analysis.constant(b.buffer) && b.strides[contraction->vector] != 1 &&
                   contraction->row < 0 && b.strides[contraction->reduce.back()] == 1;
  if (dot && !turn_to_windows(context, *contraction)) return false;
  ContractionWriter(context, std::move(*contraction), std::move(nest)).run();
  return true;
}

}  // namespace tessera::space
