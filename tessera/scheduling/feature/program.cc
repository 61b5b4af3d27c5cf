#include "tessera/scheduling/feature/program.h"

#include <algorithm>
#include <cmath>

#include "tessera/scheduling/feature/expression.h"
#include "tessera/scheduling/feature/iter_widths.h"
#include "tessera/scheduling/feature/stage_reads.h"
#include "tessera/scheduling/schedule/iter_map.h"
#include "tessera/scheduling/schedule/nest.h"
#include "tessera/scheduling/schedule/storage.h"

namespace tessera::feature {
namespace {

using schedule::Attach;
using schedule::Stage;
using schedule::State;

using Memory = std::pmr::memory_resource*;

std::size_t idx(int i) { return static_cast<std::size_t>(i); }

double width(const Interval& i) { return i.hi - i.lo + 1; }

// All accesses of one stage to one tensor, in coordinates of the tensor.
struct Group {
  Group(const TensorReads& of, Memory memory)
      : reads(&of),
        buffer(of.buffer),
        rank(of.rank),
        region(memory),
        origin(memory),
        point(memory) {}
  const TensorReads* reads;
  const ir::BufferNode* buffer;
  std::size_t rank;
  std::pmr::vector<Interval> region;  // [level][dim]
  Numbers origin;                     // [dim]: all loops at 0
  Numbers point;                      // [loop][dim]: this loop at 1, all others at 0
};

// A stage with its loops placed.
struct Placed {
  explicit Placed(Memory memory)
      : loops(memory),
        needed(memory),
        step(memory),
        loop_of(memory),
        groups(memory),
        own_reads(memory) {}
  int target = -1;    // stage it is computed in
  int attached = -1;  // id of the loop it is computed at; -1: those around it run once
  bool live = false;
  // The threads of a block compute it together: it is outside of those of the stages around it.
  bool shared = false;
  std::pmr::vector<Loop> loops;
  std::size_t own = 0;
  std::pmr::vector<Interval> needed;  // [level 0..own][axis]: what the loops from there inward need
  Numbers step;                       // [loop < own][axis]: how that loop moves the region
  std::vector<std::int64_t> iters;    // extents, at least 1
  Numbers loop_of;                    // per leaf position: index of its loop, -1 when dropped
  std::pmr::vector<Group> groups;
  const StageReads* reads = nullptr;
  StageReads own_reads;  // where no cache keeps them

  const Interval& region(std::size_t rank, std::size_t axis) const {
    return needed[own * rank + axis];
  }
  std::size_t index_of(int loop_id) const {  // loops.size(): not around this stage
    std::size_t l = 0;
    while (l < loops.size() && loops[l].id != loop_id) ++l;
    return l;
  }
};

// What the loop adds to the region of a dimension that it moves by `step`.
Interval extended(const Interval& region, const Loop& loop, double step) {
  const double reach = step * (loop.extent - 1);
  return {region.lo + std::min(0.0, reach), region.hi + std::max(0.0, reach)};
}

class Builder {
 public:
  Builder(const State& state, double line_bytes, Program* program, Memory memory, ReadsCache* cache)
      : state_(state),
        cache_(cache),
        line_bytes_(line_bytes),
        program_(*program),
        memory_(memory),
        placed_(memory) {}

  Result<void> run() {
    if (cache_ != nullptr) cache_->look_at(state_);
    placed_.reserve(state_.stages.size());
    for (std::size_t i = 0; i < state_.stages.size(); ++i) placed_.emplace_back(memory_);
    for (std::size_t i = state_.stages.size(); i-- > 0;) {  // consumers before producers
      if (state_.stages[i].attach.kind != Attach::Kind::kInline) TESSERA_DO(place(i));
    }
    program_.statements.reserve(state_.stages.size());
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      if (placed_[i].live && placed_[i].target < 0) emit(i);
    }
    return {};
  }

 private:
  Result<void> place(std::size_t i) {
    const Stage& stage = state_.stages[i];
    Placed& p = placed_[i];
    p.live = true;
    const std::size_t rank = stage.op.axes.size();
    if (stage.attach.kind == Attach::Kind::kAt) {
      TESSERA_DO(enter_target(stage, &p));
      TESSERA_DO(infer_region(i));
    } else {
      for (const te::Axis& a : stage.op.axes) p.needed.push_back(whole(a));
    }
    std::vector<std::int64_t> roots;
    roots.reserve(rank + stage.op.reduce_axes.size());
    for (std::size_t a = 0; a < rank; ++a) {
      roots.push_back(static_cast<std::int64_t>(width(p.region(rank, a))));
    }
    for (const te::Axis& a : stage.op.reduce_axes)
      roots.push_back(std::max<std::int64_t>(1, a.extent));
    p.iters = schedule::iter_extents(stage, roots);
    for (const int id : stage.leaves) {
      const auto extent = static_cast<double>(p.iters[idx(id)]);
      p.loop_of.push_back(extent > 1 ? static_cast<double>(p.loops.size()) : -1);
      if (extent <= 1) continue;
      const schedule::Iter& it = stage.iters[idx(id)];
      p.loops.push_back({.id = program_.loops++,
                         .stage = static_cast<int>(i),
                         .iter = id,
                         .extent = extent,
                         .reduce = it.reduce,
                         .annotation = it.annotation});
    }
    p.reads = cache_ != nullptr ? cache_->find(state_, stage) : nullptr;
    if (p.reads == nullptr && find_reads(state_, stage, &p.own_reads)) p.reads = &p.own_reads;
    if (p.reads == nullptr) {
      return make_error(ErrorCode::kIllegalSchedule,
                        "stage {}: its value is too large once stages are inlined", stage.name());
    }
    p.groups.reserve(p.reads->tensors.size());
    for (const TensorReads& t : p.reads->tensors) p.groups.emplace_back(t, memory_);
    measure_groups(stage, &p);
    return {};
  }

  static Interval whole(const te::Axis& a) {
    return {0, static_cast<double>(std::max<std::int64_t>(1, a.extent)) - 1};
  }

  // Takes over the loops of the stage it is computed in, down to the attach point.
  Result<void> enter_target(const Stage& stage, Placed* p) {
    p->target = state_.index_of(stage.attach.stage);
    const int position =
        p->target < 0 ? -1 : state_.stages[idx(p->target)].position(stage.attach.iter);
    if (position < 0 || !placed_[idx(p->target)].live) {
      return make_error(ErrorCode::kIllegalSchedule, "stage {} is computed at a loop that {} lacks",
                        stage.name(), stage.attach.stage);
    }
    p->shared = stage.scope == "shared";
    for (const schedule::NestLoop& around : schedule::loops_around(state_, stage)) {
      const Loop* loop = loop_of(around);
      if (loop == nullptr) continue;  // of one iteration
      p->attached = loop->id;
      if (!around.together) p->loops.push_back(*loop);
    }
    p->own = p->loops.size();
    return {};
  }

  const Loop* loop_of(const schedule::NestLoop& loop) const {
    const auto stage = static_cast<std::size_t>(loop.stage - state_.stages.data());
    const Placed& p = placed_[stage];
    const double l = p.loop_of[idx(loop.stage->position(loop.iter))];
    return l < 0 ? nullptr : &p.loops[static_cast<std::size_t>(l)];
  }

  static bool writes(const Stage& stage, const ir::BufferNode* buffer) {
    for (const ir::Buffer& b : stage.op.outputs) {
      if (b.get() == buffer) return true;
    }
    return false;
  }

  // The union of what readers need, at every level of the loops around the stage.
  Result<void> infer_region(std::size_t i) {
    const Stage& stage = state_.stages[i];
    Placed& p = placed_[i];
    const std::size_t rank = stage.op.axes.size();
    bool used = false;
    for (std::size_t j = i + 1; j < placed_.size(); ++j) {
      const Placed& q = placed_[j];
      for (const Group& g : q.groups) {
        if (!g.reads->read || !writes(stage, g.buffer)) continue;
        TESSERA_DO(schedule::loops_of_visit(state_, stage, state_.stages[j]));
        join(q, g, rank, !used, &p);
        used = true;
      }
    }
    if (!used)
      return make_error(ErrorCode::kIllegalSchedule, "stage {} has no consumer to be computed at",
                        stage.name());
    for (std::size_t a = 0; a < rank; ++a) {
      const Interval all = whole(stage.op.axes[a]);
      const bool is_whole = width(p.region(rank, a)) >= width(all);
      for (std::size_t level = 0; level <= p.own; ++level) {
        Interval& n = p.needed[level * rank + a];
        if (is_whole || width(n) >= width(all)) n = all;
      }
      for (std::size_t l = 0; is_whole && l < p.own; ++l) p.step[l * rank + a] = 0;
    }
    return {};
  }

  // The level of `q` at which `p` is computed.
  static std::size_t attach_level(const Placed& p, const Placed& q) {
    const std::size_t at = q.index_of(p.attached);
    if (at < q.loops.size() && p.target >= 0) return at + 1;
    for (std::size_t l = p.own; l-- > 0;) {
      if (q.index_of(p.loops[l].id) < q.loops.size()) return q.index_of(p.loops[l].id) + 1;
    }
    return 0;
  }

  // The level of `q` at which loop `l` around `p` runs. Threads that compute `q` together are not
  // around it.
  static std::size_t level_of(const Placed& p, std::size_t l, const Placed& q) {
    for (; l < p.own; ++l) {
      if (const std::size_t at = q.index_of(p.loops[l].id); at < q.loops.size()) return at;
    }
    return attach_level(p, q);
  }

  // The region that `q` reads while its loops from `level` on run, with all threads of a block.
  static Interval region_of(const Placed& q, const Group& g, std::size_t level, std::size_t dim,
                            bool all_threads, std::size_t from = 0) {
    Interval out = g.region[level * g.rank + dim];
    for (std::size_t t = from; all_threads && t < level; ++t) {
      if (schedule::is_thread(q.loops[t].annotation))
        out = extended(out, q.loops[t], g.point[t * g.rank + dim] - g.origin[dim]);
    }
    return out;
  }

  static void join(const Placed& q, const Group& g, std::size_t rank, bool first, Placed* p) {
    for (std::size_t l = 0; l <= p->own; ++l) {
      const std::size_t at = level_of(*p, l, q);
      const bool moves = l < p->own && at < q.loops.size() && q.loops[at].id == p->loops[l].id;
      for (std::size_t a = 0; a < rank; ++a) {
        const Interval region = region_of(q, g, at, a, p->shared);
        if (first) {
          p->needed.push_back(region);
          if (l < p->own) p->step.push_back(moves ? g.point[at * rank + a] - g.origin[a] : 0);
          continue;
        }
        Interval& all = p->needed[l * rank + a];
        all = {std::min(all.lo, region.lo), std::max(all.hi, region.hi)};
      }
    }
  }

  void measure_groups(const Stage& stage, Placed* p) {
    const std::size_t rank = stage.op.axes.size();
    const std::size_t axes = rank + stage.op.reduce_axes.size();
    const std::size_t depth = p->loops.size();
    const std::pmr::vector<IndexNode>& nodes = p->reads->expr.nodes;
    std::pmr::vector<Interval> axis(axes, memory_), bounds(nodes.size() + 1, memory_);
    Numbers at(axes, memory_), values(nodes.size() + 1, memory_);
    IterWidths iters(stage, p->iters, memory_);
    for (Group& g : p->groups) {
      g.region.resize((depth + 1) * g.rank);
      g.point.resize(depth * g.rank);
      g.origin.resize(g.rank);
    }
    for (std::size_t level = 0; level <= depth; ++level) {
      if (level > p->own) iters.run_from(p->loop_of, static_cast<double>(level));
      for (std::size_t a = 0; a < axes; ++a) {
        const auto whole_root = static_cast<double>(p->iters[a]);
        if (level <= p->own) {
          axis[a] = a < rank ? p->needed[level * rank + a] : Interval{0, whole_root - 1};
        } else {
          const double lo = a < rank ? p->region(rank, a).lo : 0;
          axis[a] = {lo, lo + iters.width(a) - 1};
        }
      }
      bound(nodes, axis.data(), bounds.data());
      note_regions(level, bounds.data(), p);
    }
    for (std::size_t loop = 0; loop <= depth; ++loop) {  // the last: none moved
      if (loop >= p->own) iters.move(p->loop_of, static_cast<double>(loop));
      for (std::size_t a = 0; a < axes; ++a) {
        const double lo = a < rank ? p->region(rank, a).lo : 0;
        const double outer = loop < p->own && a < rank ? p->step[loop * rank + a] : 0;
        at[a] = lo + (loop < p->own ? outer : iters.moved(a));
      }
      evaluate(nodes, at.data(), values.data());
      note_points(loop, values.data(), p);
    }
  }

  static void note_regions(std::size_t level, const Interval* bounds, Placed* p) {
    for (Group& g : p->groups) {
      for (std::size_t d = 0, k = 0; d < g.rank; ++d) {
        Interval all = bounds[g.reads->indices[k]];
        while (++k < g.reads->ends[d]) {
          const Interval& b = bounds[g.reads->indices[k]];
          all = {std::min(all.lo, b.lo), std::max(all.hi, b.hi)};
        }
        g.region[level * g.rank + d] = all;
      }
    }
  }

  // The first read of a tensor stands for all.
  static void note_points(std::size_t loop, const double* values, Placed* p) {
    for (Group& g : p->groups) {
      double* const to = loop == p->loops.size() ? g.origin.data() : g.point.data() + loop * g.rank;
      for (std::size_t d = 0; d < g.rank; ++d)
        to[d] = values[g.reads->indices[d == 0 ? 0 : g.reads->ends[d - 1]]];
    }
  }

  void emit(std::size_t i) {
    const Stage& stage = state_.stages[i];
    for (const int leaf : stage.leaves) {
      for (std::size_t j = 0; j < i; ++j) {
        const bool here = placed_[j].live && placed_[j].target == static_cast<int>(i) &&
                          state_.stages[j].attach.iter == leaf;
        if (here) emit(j);
      }
    }
    write_statement(i);
  }

  void write_statement(std::size_t i) {
    const Stage& stage = state_.stages[i];
    Placed& p = placed_[i];
    Statement& s = program_.statements.emplace_back(memory_);
    s.stage = &stage;
    s.stage_index = static_cast<int>(i);
    s.own = p.own;
    const Expression& expr = p.reads->expr;
    s.float_ops = expr.float_ops;
    s.int_ops = expr.int_ops;
    s.bool_ops = expr.bool_ops;
    s.select_ops = expr.select_ops;
    s.work =
        expr.float_ops.total() > 0 ? expr.float_ops.total() : expr.int_ops.total() - expr.index_ops;
    const std::size_t rank = stage.op.axes.size();
    for (std::size_t l = 0; l < p.loops.size(); ++l) {
      s.points *= p.loops[l].extent;
      if (l < p.own) s.useful_points *= p.loops[l].extent;
    }
    for (std::size_t a = 0; a < rank + stage.op.reduce_axes.size(); ++a) {
      const double extent = static_cast<double>(p.iters[a]);
      s.useful_points *= extent;
      s.domain *= a < rank ? width(whole(stage.op.axes[a])) : extent;
      if (a < rank) s.extents.push_back(extent);
    }
    for (const auto& [id, steps] : stage.auto_unroll)
      s.max_unroll = std::max(s.max_unroll, static_cast<double>(steps));
    count_tails(stage, p, &s);
    s.accesses.reserve(p.groups.size());
    for (const Group& g : p.groups) write_access(p, g, &s);
    for (const Access& a : s.accesses) {
      const bool made_here = a.write && !is_dag_output(a.buffer);
      if (made_here) s.allocated += a.stored;
    }
    s.loops = p.loops;  // those who read it later ask where it is computed
  }

  bool is_dag_output(const ir::BufferNode* buffer) const {
    for (const ir::Buffer& b : state_.dag.outputs) {
      if (b.get() == buffer) return true;
    }
    return false;
  }

  static void count_tails(const Stage& stage, const Placed& p, Statement* s) {
    for (const schedule::Relation& r : stage.relations) {
      if (r.kind != schedule::Relation::Kind::kSplit) continue;
      if (schedule::covered(r, p.iters) <= p.iters[idx(r.from[0])]) continue;
      s->guards += r.tail == schedule::Tail::kGuard ? 1 : 0;
      s->peels += r.tail == schedule::Tail::kPeel ? 1 : 0;
      s->pads += r.tail == schedule::Tail::kPad ? 1 : 0;
    }
  }

  int producer(const ir::BufferNode* buffer) const {
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      if (placed_[i].live && writes(state_.stages[i], buffer)) return static_cast<int>(i);
    }
    return -1;
  }

  const schedule::Layout* layout_of(const ir::BufferNode* buffer) const {
    for (const auto& [b, layout] : state_.layouts) {
      if (b.get() == buffer) return &layout;
    }
    return nullptr;
  }

  // Extents of the stored region before any layout.
  void stored_shape(const Group& g, int maker, Numbers* shape) const {
    if (maker < 0) {
      for (const std::int64_t e : g.buffer->shape)
        shape->push_back(static_cast<double>(std::max<std::int64_t>(1, e)));
      return;
    }
    const Stage& stage = state_.stages[idx(maker)];
    std::vector<std::int64_t> stored = schedule::stored_extents(stage, placed_[idx(maker)].iters);
    if (!stage.align.empty()) schedule::align_strides(stage, layout_of(g.buffer), &stored);
    shape->assign(stored.begin(), stored.end());
  }

  void write_access(const Placed& p, const Group& g, Statement* s) {
    Access& a = s->accesses.emplace_back(memory_);
    const int maker = producer(g.buffer);
    const schedule::Layout* layout = layout_of(g.buffer);
    a.buffer = g.buffer;
    a.read = g.reads->read;
    a.write = g.reads->write;
    a.conditional = g.reads->conditional;
    a.packed = layout != nullptr;
    a.temporary = maker >= 0 && !g.reads->write;
    a.reads = g.reads->reads;
    a.element_bytes = static_cast<double>(size_bytes(g.buffer->dtype));
    Numbers plain(memory_);
    stored_shape(g, maker, &plain);
    if (layout) {
      for (const schedule::LayoutDim& d : *layout) {
        a.shape.push_back(d.modulus != 0
                              ? static_cast<double>(d.modulus)
                              : std::ceil(plain[idx(d.dim)] / static_cast<double>(d.divisor)));
      }
    } else {
      a.shape = plain;
    }
    for (const double e : a.shape) a.stored *= e;

    const std::size_t depth = p.loops.size();
    const Placed* const from = maker < 0 ? nullptr : &placed_[idx(maker)];
    Numbers relative(g.rank, memory_);
    for (std::size_t d = 0; d < g.rank; ++d)
      relative[d] = g.origin[d] - (from ? from->region(g.rank, d).lo : 0);
    const double origin = flat_index(a, layout, relative);
    for (std::size_t loop = 0; loop < depth; ++loop) {
      for (std::size_t d = 0; d < g.rank; ++d) {
        const double shift = from ? step_of(*from, p.loops[loop].id, d, g.rank) : 0;
        relative[d] = g.point[loop * g.rank + d] - shift - (from ? from->region(g.rank, d).lo : 0);
      }
      a.stride.push_back(flat_index(a, layout, relative) - origin);
    }
    std::pmr::vector<Interval> part(g.rank, memory_);
    const std::size_t inside = from ? std::min(attach_level(*from, p), depth) : 0;
    for (std::size_t level = 0; level <= depth; ++level) {
      // Storage inside a loop is the same at each of its iterations.
      const std::size_t seen = std::max(level, inside);
      for (std::size_t d = 0; d < g.rank; ++d) {
        const double lo = from ? from->region(g.rank, d).lo : 0;
        const Interval r = region_of(p, g, seen, d, from && from->shared, level);
        part[d].lo = std::clamp(r.lo - lo, 0.0, plain[d] - 1);
        part[d].hi = std::clamp(r.hi - lo, part[d].lo, plain[d] - 1);
      }
      measure_level(layout, part, &a);
    }
  }

  // By how much an iteration of a loop around `p` moves what it computes.
  static double step_of(const Placed& p, int loop_id, std::size_t axis, std::size_t rank) {
    const std::size_t l = p.index_of(loop_id);
    return l < p.own ? p.step[l * rank + axis] : 0;
  }

  static double flat_index(const Access& a, const schedule::Layout* layout, const Numbers& index) {
    double flat = 0;
    for (std::size_t k = 0; k < a.shape.size(); ++k) {
      double i = 0;
      if (layout) {
        const schedule::LayoutDim& d = (*layout)[k];
        i = std::floor(index[idx(d.dim)] / static_cast<double>(d.divisor));
        const auto m = static_cast<double>(d.modulus);
        if (m > 0) i -= m * std::floor(i / m);
      } else {
        i = index[k];
      }
      flat = flat * a.shape[k] + i;
    }
    return flat;
  }

  static double stored_width(const schedule::LayoutDim& d, const Interval& part) {
    const auto divisor = static_cast<double>(d.divisor);
    const double lo = std::floor(part.lo / divisor);
    const double hi = std::floor(part.hi / divisor);
    const auto m = static_cast<double>(d.modulus);
    if (m <= 0) return hi - lo + 1;
    return std::floor(lo / m) == std::floor(hi / m) ? hi - lo + 1 : m;
  }

  void measure_level(const schedule::Layout* layout, const std::pmr::vector<Interval>& part,
                     Access* a) const {
    double elements = 1, run = 1;
    bool contiguous = true;
    for (std::size_t k = a->shape.size(); k-- > 0;) {
      const double w =
          layout ? stored_width((*layout)[k], part[idx((*layout)[k].dim)]) : width(part[k]);
      elements *= w;
      if (contiguous) run *= w;
      contiguous = contiguous && w >= a->shape[k];
    }
    a->elements.push_back(elements);
    a->lines.push_back(elements / run * std::ceil(run * a->element_bytes / line_bytes_));
  }

  const State& state_;
  ReadsCache* cache_;
  const double line_bytes_;
  Program& program_;
  Memory memory_;
  std::pmr::vector<Placed> placed_;
};

}  // namespace

Result<void> build_program(const schedule::State& state, double line_bytes, Program* program,
                           std::pmr::memory_resource* memory, ReadsCache* cache) {
  return Builder(state, line_bytes, program, memory, cache).run();
}

}  // namespace tessera::feature
