#include <algorithm>
#include <map>

#include "tessera/scheduling/space/fold.h"
#include "tessera/scheduling/space/inlining.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/pointwise.h"
#include "tessera/scheduling/space/reduction.h"
#include "tessera/scheduling/space/row_group.h"
#include "tessera/scheduling/space/share.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

// Bytes of the intermediate rows of a block.
constexpr std::int64_t kMaxRowBytes = 32 << 10;

// As many lanes are folded one after the other; more of them by halves, down to two.
constexpr std::int64_t kScalarLanes = 4;

class RowWriter {
 public:
  RowWriter(Context& context, std::size_t nest)
      : context_(context), nest_(nest), nest_stage_(context.stage(nest)), group_(context, nest) {}

  void run() {
    members_ = group_.members();
    rows_ = group_.rows();
    if (members_.empty() && !nest_stage_.reduces()) return schedule_pointwise(context_, nest_);
    choose_shape();
    // Factoring wants stages whose axes are whole.
    if (nest_stage_.reduces()) factor(nest_);
    for (const std::size_t m : members_) {
      if (context_.stage(m).reduces()) factor(m);
    }
    write_nest();
    for (const std::size_t m : members_) write_member(m);
    context_.done[nest_] = true;
    for (const std::size_t m : members_) context_.done[m] = true;
  }

 private:
  // A reduction along contiguous memory, folded to one vector, then by halves.
  struct Factored {
    Folding folding;
    Loops others;  // reduce loops outside of the steps
  };

  void choose_shape() {
    if (nest_stage_.rank() == 0) return;
    const std::size_t last = nest_stage_.rank() - 1;
    lanes_are_rows_ = !nest_stage_.reduces() && !rows_.empty() && rows_.back() == last &&
                      nest_stage_.extent(last) > 1 && contiguous_along(last);
    std::int64_t bytes = 0;
    for (const std::size_t m : members_) {
      std::int64_t width = size_bytes(context_.stage(m).dtype());
      const Stage& s = context_.stage(m);
      for (std::size_t d = 0; d < s.rank(); ++d) {
        const AxisMap& map = group_.map(m);
        const bool row = std::any_of(rows_.begin(), rows_.end(),
                                     [&](std::size_t g) { return map[g] == static_cast<int>(d); });
        if (!row && width < kMaxRowBytes) width *= s.extent(d);
      }
      bytes += width;
    }
    if (rows_.empty() || (nest_stage_.reduces() && rows_.back() != last)) return;
    const std::int64_t extent = nest_stage_.extent(rows_.back());
    if (lanes_are_rows_) {
      const std::int64_t lanes = context_.lanes(nest_stage_.dtype());
      const std::int64_t vectors =
          context_.chooser.number(nest_stage_.op.name, "row_vectors", PointKind::kVector, 4, [&] {
            std::vector<std::int64_t> out;
            for (const std::int64_t n : {1, 2, 4, 8}) {
              if (n * lanes <= schedule::kMaxVector && (n - 1) * lanes < extent) out.push_back(n);
            }
            return out;
          });
      block_ = at_most(vectors * lanes, extent);
      return;
    }
    const std::int64_t preferred =
        extent >= 2 * context_.core().rows && bytes * context_.core().rows <= kMaxRowBytes
            ? shared_rows(extent)
            : 1;
    block_ = context_.chooser.number(
        nest_stage_.op.name, "rows", PointKind::kTile, preferred,
        [&] {
          std::vector<std::int64_t> out;
          for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 8}) {
            if (n <= extent) out.push_back(n);
          }
          return out;
        },
        [&](std::int64_t n) {
          const bool fits = n <= preferred || bytes * n <= limits::kRowBytes;
          return fits ? nullptr : "the rows of a block do not fit the cache";
        });
  }

  // Operations of the nest and its members.
  double work() const {
    double out = nest_stage_.iterations() * (4 + nest_stage_.cost);
    for (const std::size_t m : members_)
      out += context_.stage(m).iterations() * (1 + context_.stage(m).cost);
    return out;
  }

  // Fewer rows side by side where the cores would otherwise not get as many blocks each.
  std::int64_t shared_rows(std::int64_t extent) const {
    const std::int64_t cores = context_.target.code_threads();
    std::int64_t others = 1;
    for (const std::size_t g : rows_) {
      if (g != rows_.back()) others *= nest_stage_.extent(g);
    }
    const auto blocks = [&](std::int64_t rows) { return others * parts_of(extent, rows); };
    const auto slowest = [&](std::int64_t rows) { return parts_of(blocks(rows), cores) * rows; };
    const std::int64_t most = context_.core().rows;
    std::int64_t best = most;
    if (!worth_threads(work()) || blocks(most) >= 4 * cores) return best;
    for (std::int64_t rows = most - 1; rows > 1; --rows) {
      if (slowest(rows) < slowest(best)) best = rows;
    }
    return best;
  }

  // No reduction reads across memory when lanes lie along this axis of the nest.
  bool contiguous_along(std::size_t g) const {
    return std::all_of(members_.begin(), members_.end(), [&](std::size_t m) {
      const Stage& s = context_.stage(m);
      if (!s.reduces()) return true;
      const auto axis = static_cast<std::size_t>(group_.map(m)[g]);
      return std::all_of(s.reads.begin(), s.reads.end(),
                         [&](const Access& r) { return !r.uses(axis) || r.strides[axis] == 1; });
    });
  }

  void factor(std::size_t stage) {
    const Stage& s = context_.stage(stage);
    const bool arg = s.op.values.size() > 1;
    if (arg || s.op.reduce_axes.empty() || lanes_are_rows_) return;
    Writer& w = context_.writer;
    const std::string& name = s.op.name;
    Loops reduce;
    std::int64_t extent = 1;
    for (const te::Axis& a : s.op.reduce_axes) {
      reduce.push_back(a.var.as<ir::Var>()->name);
      extent *= a.extent;
    }
    const int lanes = context_.lanes(s.dtype());
    const std::int64_t last = s.op.reduce_axes.back().extent;
    Factored f;
    std::string loop = reduce.back();
    if (last >= 4 * lanes) {
      f.others.assign(reduce.begin(), reduce.end() - 1);
      extent = last;
    } else {
      loop = w.fuse(name, reduce);
    }
    const std::int64_t preferred = block_ > 1 ? 2 : 4;
    const std::int64_t vectors = context_.chooser.number(
        name, "partial_vectors", PointKind::kVector, preferred,
        [&] {
          std::vector<std::int64_t> out;
          for (const std::int64_t n : {1, 2, 4, 8}) {
            if (n * lanes <= schedule::kMaxVector && 2 * n * lanes <= extent) out.push_back(n);
          }
          return out;
        },
        [&](std::int64_t n) {
          const bool fits =
              n <= preferred || limits::fits_registers_beside(context_.target, n * block_, 4);
          return fits ? nullptr : "more partial results than registers";
        });
    const std::int64_t wide = vectors * lanes;
    if (extent < 2 * wide) {
      if (loop != reduce.back()) fused_[stage] = loop;
      return;
    }
    std::vector<std::int64_t> lengths;
    const std::int64_t least = lanes > kScalarLanes ? 2 : lanes;
    for (std::int64_t left = lanes; left >= least; left /= 2) lengths.push_back(left);
    f.folding = fold_loop(w, name, loop, s.rank(), wide, lengths);
    factored_[stage] = f;
  }

  void write_nest() {
    Writer& w = context_.writer;
    const std::string& name = nest_stage_.op.name;
    std::vector<OuterLoop> outer;
    Loops inner, tile;
    std::string block;
    for (std::size_t g = 0; g < nest_stage_.rank(); ++g) {
      const bool row =
          nest_stage_.reduces() || std::find(rows_.begin(), rows_.end(), g) != rows_.end();
      const bool last_row =
          row && g == (nest_stage_.reduces() ? nest_stage_.rank() - 1 : rows_.back());
      if (!row) {
        inner.push_back(nest_stage_.axis_name(g));
      } else if (last_row && block_ > 1) {
        const Loops l = w.split(name, nest_stage_.axis_name(g), {block_});
        outer.push_back({l[0], (nest_stage_.extent(g) + block_ - 1) / block_});
        block = l[1];
      } else {
        outer.push_back({nest_stage_.axis_name(g), nest_stage_.extent(g)});
      }
    }
    Loops order = names_of(outer);
    if (lanes_are_rows_) {
      order.insert(order.end(), inner.begin(), inner.end());
      order.push_back(block);
      w.vectorize(name, block);
    } else if (nest_stage_.reduces()) {
      const Loops reduce = reduce_loops(nest_);
      order.insert(order.end(), reduce.begin(), reduce.end());
      if (!block.empty()) {
        order.push_back(block);
        w.unroll(name, block);
      }
    } else {
      write_inner(block, inner, &order);
    }
    w.reorder(name, order);
    if (!outer.empty())
      outer =
          share_out(context_, name, choose_sharing(context_, name, work()), outer, outer.size());
    if (!outer.empty()) attach_ = outer.back().name;
    write_factored(nest_);
  }

  // Row after row, in steps of many vectors; or the rows side by side, which share operands.
  void write_inner(const std::string& block, const Loops& inner, Loops* order) {
    const std::size_t last = nest_stage_.rank() - 1;
    bool together = false;
    if (!block.empty() && inner.size() == 1) {
      const bool fits = nest_stage_.nodes * block_ <= limits::kNodesOfRows;
      together = context_.chooser.flag(
          nest_stage_.op.name, "rows_together", PointKind::kOrder, false, [&](std::int64_t value) {
            return fits || value == 0 ? nullptr : "too long an expression for this many rows";
          });
    }
    if (!block.empty() && !together) order->push_back(block);
    if (inner.empty()) return;
    order->insert(order->end(), inner.begin(), inner.end() - 1);
    Loops parts;
    if (!together) {
      vectorize_last(context_, nest_stage_, inner.back(), nest_stage_.extent(last), order,
                     nest_stage_.nodes <= 16 ? context_.core().row_vectors : 1);
      return;
    }
    const std::int64_t step =
        at_most(2 * context_.lanes(nest_stage_.dtype()), nest_stage_.extent(last));
    parts = context_.writer.split(nest_stage_.op.name, inner.back(), {step});
    context_.writer.vectorize(nest_stage_.op.name, parts[1]);
    context_.writer.unroll(nest_stage_.op.name, block);
    order->insert(order->end(), {parts[0], block, parts[1]});
  }

  // What is left of the reduce loops of a stage after factoring.
  Loops reduce_loops(std::size_t stage) const {
    if (const auto it = factored_.find(stage); it != factored_.end())
      return {it->second.folding.last};
    if (const auto it = fused_.find(stage); it != fused_.end()) return {it->second};
    Loops out;
    for (const te::Axis& a : context_.stage(stage).op.reduce_axes)
      out.push_back(a.var.as<ir::Var>()->name);
    return out;
  }

  // Axes of a stage as loops: those that are not rows, and the one of the block.
  void axes_of(std::size_t stage, Loops* units, Loops* own, std::string* block) const {
    const Stage& s = context_.stage(stage);
    const AxisMap& map = group_.map(stage);
    for (std::size_t d = 0; d < s.rank(); ++d) {
      const auto g = std::find_if(rows_.begin(), rows_.end(),
                                  [&](std::size_t row) { return map[row] == static_cast<int>(d); });
      if (g == rows_.end()) {
        own->push_back(s.axis_name(d));
      } else if (*g == rows_.back() && block_ > 1) {
        *block = s.axis_name(d);
      } else {
        units->push_back(s.axis_name(d));
      }
    }
  }

  void write_member(std::size_t stage) {
    Writer& w = context_.writer;
    const Stage& s = context_.stage(stage);
    const std::string& name = s.op.name;
    write_factored(stage);
    w.compute_at(name, nest_stage_.op.name, attach_);
    Loops order, own;
    std::string block;
    axes_of(stage, &order, &own, &block);
    if (lanes_are_rows_ || s.reduces()) {
      order.insert(order.end(), own.begin(), own.end());
      if (s.reduces()) {
        const Loops reduce = reduce_loops(stage);
        order.insert(order.end(), reduce.begin(), reduce.end());
        if (factored_.count(stage)) w.unroll(name, reduce.back());
      }
      if (!block.empty()) {
        order.push_back(block);
        lanes_are_rows_ ? w.vectorize(name, block) : w.unroll(name, block);
      }
    } else if (own.empty()) {
      if (!block.empty()) order.push_back(block);
      if (!block.empty()) w.unroll(name, block);
    } else {
      if (!block.empty()) order.push_back(block);
      order.insert(order.end(), own.begin(), own.end() - 1);
      const std::size_t last = s.rank() - 1;
      if (own.back() == s.axis_name(last)) {
        vectorize_last(context_, s, own.back(), s.extent(last), &order);
      } else {
        order.push_back(own.back());
      }
    }
    w.reorder(name, order);
  }

  // The partial sums of a factored reduction, and their folding to one vector.
  void write_factored(std::size_t stage) {
    const auto it = factored_.find(stage);
    if (it == factored_.end()) return;
    const Folding& f = it->second.folding;
    Writer& w = context_.writer;
    Loops units, own;
    std::string block;
    if (stage == nest_) {
      for (std::size_t d = 0; d < nest_stage_.rank(); ++d) {
        const bool last = d + 1 == nest_stage_.rank() && block_ > 1;
        (last ? block : units.emplace_back()) = nest_stage_.axis_name(d);
      }
    } else {
      axes_of(stage, &units, &own, &block);
    }
    if (stage == nest_) w.unroll(nest_stage_.op.name, f.last);
    units.insert(units.end(), own.begin(), own.end());
    const auto write = [&](const std::string& name, Loops steps, const std::string& lane,
                           bool unroll) {
      if (!attach_.empty()) w.compute_at(name, nest_stage_.op.name, attach_);
      Loops order = units;
      order.insert(order.end(), steps.begin(), steps.end());
      if (!block.empty()) order.push_back(block);
      order.push_back(lane);
      w.reorder(name, order);
      if (!block.empty()) w.unroll(name, block);
      if (unroll) w.unroll(name, steps.back());
      w.vectorize(name, lane);
    };
    Loops steps = it->second.others;
    steps.push_back(f.outer);
    write(f.partial, steps, f.lane, false);
    for (const Fold& fold : f.folds) write(fold.stage, {fold.loop}, fold.lane, true);
  }

  Context& context_;
  std::size_t nest_;
  const Stage& nest_stage_;
  RowGroup group_;
  std::vector<std::size_t> members_;
  std::vector<std::size_t> rows_;
  bool lanes_are_rows_ = false;  // the last axis of the nest is one that all stages have
  std::int64_t block_ = 1;       // rows, or lanes, computed together
  std::map<std::size_t, Factored> factored_;
  std::map<std::size_t, std::string> fused_;
  std::string attach_;
};

}  // namespace

void schedule_rows_of(Context& context, std::size_t nest) { RowWriter(context, nest).run(); }

}  // namespace tessera::space
