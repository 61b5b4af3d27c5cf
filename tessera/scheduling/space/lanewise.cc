#include <algorithm>
#include <array>

#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/inlining.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/reduction.h"
#include "tessera/scheduling/space/share.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

// Blocks of lanes that are read together: two lines.
constexpr double kMinLaneBytes = 128;
// Below this length, vectors of partial results cost more than lanes that lie apart.
constexpr std::int64_t kShortReduction = 64;

struct LaneTile {
  std::int64_t outer = 1, inner = 1;  // of the last two axes before the lanes
  std::int64_t vectors = 4;
  bool unroll_taps = false;
  bool lanes_first = false;  // the loop over lanes stands outside
  std::int64_t block = 0;    // lanes in blocks of so many tiles, outside of everything; 0: none
};

bool contiguous_lanes(const Stage& s, std::size_t axis) {
  return std::all_of(s.reads.begin(), s.reads.end(),
                     [&](const Access& r) {
                       return r.strides[axis] == 1 || !r.uses(axis) || r.buffer.size() <= 1;
                     }) &&
         std::any_of(s.reads.begin(), s.reads.end(),
                     [&](const Access& r) { return r.strides[axis] == 1; });
}

// Neighbouring outputs of a window share rows and columns of the input. `by_rows`: there is one row
// of outputs at a time.
LaneTile preferred_tile(const Stage& s, std::size_t last, std::int64_t taps,
                        const target::Target& target, bool by_rows) {
  LaneTile tile;
  if (taps > limits::kLaneTaps || !is_float(s.dtype()) || s.reads.size() < 2 || last < 2) {
    tile.vectors = taps > limits::kLaneTaps ? 8 : 4;
    return tile;
  }
  tile.vectors = limits::has_many_registers(target) ? 2 : 1;
  tile.unroll_taps = true;
  constexpr std::array<std::array<std::int64_t, 2>, 5> kTiles = {
      {{3, 2}, {2, 2}, {1, 4}, {1, 2}, {1, 1}}};
  for (const auto& [outer, inner] : kTiles) {
    if (outer > (by_rows ? 1 : s.extent(last - 2)) || inner > s.extent(last - 1)) continue;
    if (outer * inner * tile.vectors * taps > limits::kLaneBody) continue;
    tile.outer = outer;
    tile.inner = inner;
    break;
  }
  return tile;
}

class LaneWriter {
 public:
  LaneWriter(Context& context, std::size_t stage, Nest nest, std::size_t last)
      : context_(context),
        stage_(context.stage(stage)),
        nest_stage_(context.stage(nest.stage)),
        nest_(std::move(nest)),
        last_(last),
        self_(nest_.stage == stage),
        by_rows_(served_front(context).has_value()) {}

  void run() {
    const LaneTile tile = choose_tile();
    layout_weights();
    Writer& w = context_.writer;
    const std::string& name = nest_stage_.op.name;
    std::vector<OuterLoop> outer;
    Loops inner;
    for (std::size_t i = 0; i < nest_stage_.rank(); ++i) {
      const std::size_t axis = own_axis(i);
      const std::string& loop = nest_stage_.axis_name(i);
      const std::int64_t extent = nest_stage_.extent(i);
      std::int64_t length = 0;
      if (axis == last_) length = at_most(tile.vectors * context_.lanes(stage_.dtype()), extent);
      if (last_ >= 1 && axis == last_ - 1 && tile.inner > 1) length = tile.inner;
      if (last_ >= 2 && axis == last_ - 2 && tile.outer > 1) length = tile.outer;
      if (length == 0) {
        outer.push_back({loop, extent});
        continue;
      }
      Loops l;
      const std::int64_t block = axis == last_ ? tile.block * length : 0;
      if (block > 0 && block < extent) {
        l = w.split(name, loop, {tile.block, length});
        outer.insert(outer.begin(), {l[0], parts_of(extent, block)});
        l.erase(l.begin());
        outer.push_back({l[0], tile.block});
        inner.push_back(l[1]);
        tiled_.push_back(axis);
        continue;
      }
      l = w.split(name, loop, {length});
      const OuterLoop part{l[0], parts_of(extent, length)};
      const bool first = axis == last_ && tile.lanes_first;
      outer.insert(first ? outer.begin() : outer.end(), part);
      inner.push_back(l[1]);
      tiled_.push_back(axis);
    }
    Loops order = names_of(outer);
    if (self_) append_reduce(&order);
    order.insert(order.end(), inner.begin(), inner.end());
    w.reorder(name, order);
    annotate(name, inner);
    const Sharing sharing =
        choose_sharing(context_, stage_.op.name, stage_.iterations() * (2 + stage_.cost));
    outer = share_out(context_, name, sharing, outer, outer.size());
    if (!self_) attach(outer.back().name);
    if (tile.unroll_taps) {
      for (const te::Axis& a : stage_.op.reduce_axes)
        w.unroll(stage_.op.name, a.var.as<ir::Var>()->name);
    }
    context_.done[nest_.stage] = true;
  }

 private:
  std::int64_t taps() const {
    std::int64_t out = 1;
    for (const te::Axis& a : stage_.op.reduce_axes)
      out *= std::min<std::int64_t>(a.extent, 1 << 20);
    return out;
  }

  LaneTile choose_tile() {
    const std::string& name = stage_.op.name;
    Chooser& chooser = context_.chooser;
    LaneTile tile = preferred_tile(stage_, last_, taps(), context_.target, by_rows_);
    const std::int64_t lanes = context_.lanes(stage_.dtype());
    const auto up_to = [](std::int64_t most) {
      std::vector<std::int64_t> out;
      for (const std::int64_t n : {1, 2, 3, 4, 6, 8}) {
        if (n <= most) out.push_back(n);
      }
      return out;
    };
    // The sums stay in registers; windows can always be left as loops.
    const auto fits = [&](std::int64_t sums, std::int64_t taps) -> const char* {
      if (!limits::fits_registers_beside(context_.target, sums, 2))
        return "more sums than registers";
      const std::int64_t most =
          conditional() ? limits::kConditionalWindowBody : limits::kWindowBody;
      return sums * taps > most ? "too many operations in one body" : nullptr;
    };
    tile.vectors = chooser.number(
        name, "vectors", PointKind::kVector, tile.vectors,
        [&] {
          return up_to(
              std::min(parts_of(stage_.extent(last_), lanes), schedule::kMaxVector / lanes));
        },
        [&](std::int64_t n) { return fits(n, 1); });
    if (last_ >= 1) {
      tile.inner = chooser.number(
          name, "tile_columns", PointKind::kTile, tile.inner,
          [&] { return up_to(stage_.extent(last_ - 1)); },
          [&](std::int64_t n) { return fits(n * tile.vectors, 1); });
    }
    if (last_ >= 2 && !by_rows_) {
      tile.outer = chooser.number(
          name, "tile_rows", PointKind::kTile, tile.outer,
          [&] { return up_to(stage_.extent(last_ - 2)); },
          [&](std::int64_t n) { return fits(n * tile.inner * tile.vectors, 1); });
    }
    const std::int64_t sums = tile.inner * tile.outer * tile.vectors;
    if (taps() <= limits::kWindowTaps) {
      tile.unroll_taps =
          chooser.flag(name, "unroll_taps", PointKind::kUnroll, tile.unroll_taps,
                       [&](std::int64_t value) { return fits(sums, value == 1 ? taps() : 1); });
    }
    tile.lanes_first = tile.unroll_taps && lanes_first();
    if (!conditional() && stage_.extent(last_) > lanes)
      tile.lanes_first = chooser.flag(name, "lanes_first", PointKind::kOrder, tile.lanes_first);
    tile.block = choose_lane_block(tile);
    return tile;
  }

  // Windows overlap from one row of tiles to the next: a block of lanes that keeps those rows in
  // L1.
  std::int64_t choose_lane_block(const LaneTile& tile) {
    const std::int64_t length = tile.vectors * context_.lanes(stage_.dtype());
    const std::int64_t tiles = parts_of(stage_.extent(last_), length);
    if (tile.lanes_first || last_ < 2 || !tile.unroll_taps || tiles < 2) return 0;
    return context_.chooser.number(stage_.op.name, "lane_block", PointKind::kTile,
                                   preferred_lane_block(tile, length, tiles), [&] {
                                     std::vector<std::int64_t> out = {0};
                                     for (const std::int64_t n : {1, 2, 3, 4, 6, 8, 12, 16}) {
                                       if (n < tiles) out.push_back(n);
                                     }
                                     return out;
                                   });
  }

  // Whole blocks of at least two lines; a little more than L1 holds if nothing less comes out even.
  std::int64_t preferred_lane_block(const LaneTile& tile, std::int64_t length,
                                    std::int64_t tiles) const {
    if (stage_.extent(last_) % length != 0) return 0;
    const double pixels = window_pixels(tile);
    const auto bytes = static_cast<double>(length * size_bytes(stage_.dtype()));
    const double fit = static_cast<double>(context_.l1_bytes()) / (pixels * bytes);
    if (static_cast<double>(tiles) <= fit) return 0;
    std::int64_t best = 0;
    for (std::int64_t n = 1; n < tiles; ++n) {
      const auto count = static_cast<double>(n);
      if (tiles % n != 0 || count * bytes < kMinLaneBytes || count > 1.5 * fit) continue;
      if (best > 0 && count > fit) break;
      best = n;
    }
    return best;
  }

  // Pixels that a row of tiles reads and writes, and the taps.
  double window_pixels(const LaneTile& tile) const {
    double rows = static_cast<double>(tile.outer),
           columns = static_cast<double>(stage_.extent(last_ - 1));
    const double written = rows * columns;
    for (const Access& r : stage_.reads) {
      if (context_.analysis.constant(r.buffer) || stage_.op.reduce_axes.size() < 2) continue;
      const std::size_t kh = stage_.rank(), kw = kh + 1;
      const auto window = [&](double count, std::size_t axis, std::size_t tap) {
        const double step = r.strides[tap] > 0 ? static_cast<double>(r.strides[axis]) /
                                                     static_cast<double>(r.strides[tap])
                                               : 1;
        return (count - 1) * step + static_cast<double>(stage_.extent(tap));
      };
      rows = window(rows, last_ - 2, kh);
      columns = window(columns, last_ - 1, kw);
      break;
    }
    return rows * columns + written + static_cast<double>(taps());
  }

  // The axis of the reduction that axis i of the nest stands for; its rank when none.
  std::size_t own_axis(std::size_t i) const {
    for (std::size_t d = 0; d < nest_.axis.size(); ++d) {
      if (nest_.axis[d] == i) return d;
    }
    return stage_.rank();
  }

  bool conditional() const {
    return std::any_of(stage_.reads.begin(), stage_.reads.end(),
                       [](const Access& r) { return r.conditional; });
  }

  // Weights that leave no room in L1 are read once, a few lanes of them at a time.
  bool lanes_first() const {
    double taps = 1;
    for (const te::Axis& a : stage_.op.reduce_axes) taps *= static_cast<double>(a.extent);
    const double bytes =
        taps * static_cast<double>(stage_.extent(last_)) * size_bytes(stage_.dtype());
    return !conditional() && 2 * bytes > static_cast<double>(context_.l1_bytes());
  }

  void append_reduce(Loops* order) const {
    for (const te::Axis& a : stage_.op.reduce_axes) order->push_back(a.var.as<ir::Var>()->name);
  }

  void annotate(const std::string& stage, const Loops& inner) {
    for (std::size_t i = 0; i < inner.size(); ++i) {
      if (tiled_[i] == last_) {
        context_.writer.vectorize(stage, inner[i]);
      } else {
        context_.writer.unroll(stage, inner[i]);
      }
    }
  }

  void attach(const std::string& loop) {
    Writer& w = context_.writer;
    w.compute_at(stage_.op.name, nest_stage_.op.name, loop);
    Loops order, inner;
    for (std::size_t i = 0; i < stage_.rank(); ++i) {
      const bool tiled = std::find(tiled_.begin(), tiled_.end(), i) != tiled_.end();
      if (!tiled) order.push_back(stage_.axis_name(i));
    }
    append_reduce(&order);
    for (const std::size_t axis : tiled_) inner.push_back(stage_.axis_name(axis));
    order.insert(order.end(), inner.begin(), inner.end());
    w.reorder(stage_.op.name, order);
    annotate(stage_.op.name, inner);
  }

  // Constant operands with the lanes last.
  void layout_weights() {
    for (const Access& read : stage_.reads) {
      if (!context_.analysis.constant(read.buffer) || read.strides[last_] == 0) continue;
      int dim = -1;
      for (std::size_t d = 0; d < read.indices.size(); ++d) {
        if (read.indices[d].single_axis() == static_cast<int>(last_)) dim = static_cast<int>(d);
      }
      if (dim < 0 || dim + 1 == static_cast<int>(read.indices.size())) continue;
      schedule::Layout layout;
      for (int d = 0; d < static_cast<int>(read.indices.size()); ++d) {
        if (d != dim) layout.push_back({d, 1, 0});
      }
      layout.push_back({dim, 1, 0});
      context_.writer.layout(read.buffer->name, layout);
    }
  }

  Context& context_;
  const Stage& stage_;
  const Stage& nest_stage_;
  Nest nest_;
  std::size_t last_;
  bool self_;
  bool by_rows_;                    // a contraction computes one row of outputs at a time
  std::vector<std::size_t> tiled_;  // axes of the reduction, in the order of the inner loops
};

}  // namespace

std::optional<WindowFront> find_window_front(const Analysis& analysis) {
  const auto stage = [&](int i) -> const Stage& {
    return analysis.stages[static_cast<std::size_t>(i)];
  };
  // The stage behind a read that nothing but `user` reads; -1: there is none.
  const auto only_for = [&](const Access& read, std::size_t user) {
    const int p = analysis.producer(read.buffer);
    const bool only = p >= 0 && !stage(p).output && stage(p).users.size() == 1 &&
                      stage(p).users[0] == user && is_float(stage(p).dtype());
    return only ? p : -1;
  };
  for (std::size_t product = 0; product < analysis.stages.size(); ++product) {
    const Stage& s = analysis.stages[product];
    // Rows of an image, its columns, channels.
    if (!is_contraction(s) || s.rank() < 3) continue;
    for (const Access& read : s.reads) {
      const int front = only_for(read, product);
      if (front < 0 || stage(front).rank() < 3) continue;
      const auto at = static_cast<std::size_t>(front);
      if (is_lanewise(stage(front))) return WindowFront{at, at, product};
      if (stage(front).reduces()) continue;
      for (const Access& inner : stage(front).reads) {
        const int window = only_for(inner, at);
        if (window < 0 || !is_lanewise(stage(window))) continue;
        const auto nest = find_nest(analysis, static_cast<std::size_t>(window));
        if (nest && nest->stage == at && std::is_sorted(nest->axis.begin(), nest->axis.end()))
          return WindowFront{static_cast<std::size_t>(window), at, product};
      }
    }
  }
  return std::nullopt;
}

std::optional<WindowFront> served_front(const Context& c) {
  if (c.served.empty() || c.chain_output >= 0) return std::nullopt;
  return find_window_front(c.analysis);
}

bool schedule_lanewise(Context& c, std::size_t stage) {
  const Stage& s = c.stage(stage);
  if (!s.reduces() || s.rank() == 0 || s.op.reduce_axes.empty()) return false;
  std::size_t last = s.rank();
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (s.extent(i) > 1) last = i;
  }
  if (last == s.rank()) return false;
  Nest nest{.stage = stage, .axis = {}};
  for (std::size_t i = 0; i < s.rank(); ++i) nest.axis.push_back(i);
  if (const auto found = find_nest(c.analysis, stage); found && !c.done[found->stage]) {
    // The lanes of the nest are those of the reduction, or they are not lanes there.
    const bool in_order = std::is_sorted(found->axis.begin(), found->axis.end());
    const auto front = served_front(c);
    const bool with_front = front && front->window == stage;
    if (with_front ||
        (in_order && c.chooser.flag(s.op.name, "fuse_epilogue", PointKind::kLocation, true)))
      nest = *found;
  }
  std::vector<Access> reads;
  for (const Access& r : s.reads) {
    if (!c.analysis.constant(r.buffer)) reads.push_back(r);
  }
  Stage lanes = s;
  lanes.reads = reads;
  std::int64_t length = 1;
  for (const te::Axis& a : s.op.reduce_axes) length *= std::max<std::int64_t>(1, a.extent);
  const bool apart =
      length < kShortReduction && s.extent(last) >= c.lanes(s.dtype()) && s.op.values.size() == 1;
  if (!contiguous_lanes(lanes, last) && !apart) return false;
  LaneWriter(c, stage, std::move(nest), last).run();
  c.done[stage] = true;
  return true;
}

}  // namespace tessera::space
