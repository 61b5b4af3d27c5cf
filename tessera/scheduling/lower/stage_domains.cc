#include "tessera/scheduling/lower/stage_domains.h"

#include <algorithm>

#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/schedule/nest.h"
#include "tessera/scheduling/schedule/storage.h"

namespace tessera::lower {
namespace {

using schedule::Attach;
using schedule::Stage;
using schedule::State;

std::size_t idx(int i) { return static_cast<std::size_t>(i); }

bool reads_memory(const ir::Expr& e) {
  bool reads = false;
  ir::for_each_expr(e, [&](const ir::Expr& x) { reads = reads || x.as<ir::Load>(); });
  return reads;
}

class DomainBuilder {
 public:
  explicit DomainBuilder(const State& state) : state_(state) {}

  Result<Domains> run() {
    for (std::size_t i = state_.stages.size(); i-- > 0;) {  // consumers before producers
      const Stage& stage = state_.stages[i];
      StageDomain d;
      d.stage = &stage;
      for (const te::Axis& a : stage.op.axes) {
        d.mins.push_back(ir::int_imm(0));
        d.extents.push_back(a.extent);
      }
      if (stage.attach.kind == Attach::Kind::kAt) TESSERA_DO(needed_region(stage, &d));
      place_loops(stage, &d);
      TESSERA_DO(check_copies(stage, d));
      out_.of[&stage] = std::move(d);
    }
    return std::move(out_);
  }

 private:
  // Loop variables that vary while one visit of `stage` at its attach point is consumed, seen from
  // consumer `q`.
  Result<arith::Ranges> inner_vars(const Stage& stage, const Stage& q) const {
    TESSERA_TRY(const std::vector<schedule::NestLoop> loops,
                schedule::loops_of_visit(state_, stage, q));
    arith::Ranges inner;
    for (const schedule::NestLoop& l : loops) {
      const StageDomain& d = out_.of.at(l.stage);
      inner[d.leaf_vars[idx(l.iter)].get()] =
          arith::Interval::of_extent(d.iter_extents[idx(l.iter)]);
    }
    return inner;
  }

  static bool multiplies(const Stage& s) {
    return std::any_of(s.iters.begin(), s.iters.end(), [](const schedule::Iter& it) {
      return target::find_warp_matrix(it.intrinsic) != nullptr;
    });
  }

  // Instructions of warps compute whole tiles, also where the tensor ends within one: sums and the
  // copies that they read have room for them.
  bool has_room(const Stage& stage) const {
    const Stage* around = schedule::stage_around(state_, stage);
    return multiplies(stage) || (stage.scope == "shared" && around && multiplies(*around));
  }

  // The axis that the leaf is a part of; -1: of several.
  static int axis_of(const Stage& stage, int id) {
    for (std::size_t i = stage.relations.size(); i-- > 0;) {
      const schedule::Relation& r = stage.relations[i];
      if (std::find(r.to.begin(), r.to.end(), id) == r.to.end()) continue;
      if (r.kind != schedule::Relation::Kind::kSplit) return -1;
      id = r.from[0];
    }
    return id;
  }

  // Elements of an axis that come at once: the rows and columns of an instruction.
  static std::int64_t unit_of(const Stage& stage, std::size_t axis) {
    for (std::size_t p = 0; p + 1 < stage.leaves.size(); ++p) {
      const target::MatrixInstruction* found =
          target::find_warp_matrix(stage.iters[idx(stage.leaves[p])].intrinsic);
      if (!found) continue;
      if (axis_of(stage, stage.leaves[p]) == static_cast<int>(axis)) return found->m;
      if (axis_of(stage, stage.leaves[p + 1]) != static_cast<int>(axis)) continue;
      return found->n == 0 ? stage.iters[idx(stage.leaves[p + 1])].extent : found->n;
    }
    return 1;
  }

  Result<void> needed_region(const Stage& stage, StageDomain* d) {
    const std::size_t rank = stage.op.axes.size();
    std::vector<ir::Expr> lo(rank), hi(rank);
    std::vector<bool> whole(rank, false);
    bool used = false;
    for (const Stage& q : state_.stages) {
      std::vector<const ir::Load*> reads;
      for (const ir::Expr& v : q.op.values) {
        ir::for_each_expr(v, [&](const ir::Expr& e) {
          const auto* load = e.as<ir::Load>();
          if (load && std::find(stage.op.outputs.begin(), stage.op.outputs.end(), load->buffer) !=
                          stage.op.outputs.end()) {
            reads.push_back(load);
          }
        });
      }
      if (reads.empty()) continue;
      used = true;
      TESSERA_TRY(const arith::Ranges inner, inner_vars(stage, q));
      for (const ir::Load* read : reads) {
        for (std::size_t dim = 0; dim < rank; ++dim) {
          if (whole[dim]) continue;
          const StageDomain& reader = out_.of.at(&q);
          ir::Expr index = ir::substitute(read->indices[dim], reader.axis_values);
          if (reader.padded()) index = clamp_index(index, stage.op.axes[dim].extent, out_.ranges);
          const auto bounds = arith::symbolic_bounds(index, inner, out_.ranges);
          if (!bounds || reads_memory(index)) {
            whole[dim] = true;
            continue;
          }
          lo[dim] =
              lo[dim] ? arith::simplify(ir::min(lo[dim], bounds->min), out_.ranges) : bounds->min;
          hi[dim] =
              hi[dim] ? arith::simplify(ir::max(hi[dim], bounds->max), out_.ranges) : bounds->max;
        }
      }
    }
    if (!used)
      return make_error(ErrorCode::kIllegalSchedule, "stage {} has no consumer to be computed at",
                        stage.name());
    for (std::size_t dim = 0; dim < rank; ++dim) {
      if (whole[dim]) continue;
      const ir::Expr span = arith::simplify(hi[dim] - lo[dim], out_.ranges);
      const auto extent = arith::const_bounds(span, out_.ranges).hi;
      if (!extent) continue;
      const std::int64_t axis = stage.op.axes[dim].extent, unit = unit_of(stage, dim);
      const std::int64_t needed = (*extent + unit) / unit * unit;
      const bool beyond = has_room(stage) && (needed > axis || !ir::is_const_int(lo[dim], 0));
      if (needed >= axis && !beyond) continue;  // the whole axis
      d->mins[dim] = lo[dim];
      d->extents[dim] = needed;
    }
    return {};
  }

  static Result<void> check_copies(const Stage& stage, const StageDomain& d) {
    for (const int id : stage.leaves) {
      const schedule::Iter& it = stage.iters[idx(id)];
      const std::int64_t extent = d.iter_extents[idx(id)];
      const bool unroll =
          it.annotation == schedule::Annotation::kUnroll && extent > schedule::kMaxUnroll;
      if (unroll ||
          (it.annotation == schedule::Annotation::kVectorize && extent > schedule::kMaxVector)) {
        return make_error(ErrorCode::kIllegalSchedule,
                          "stage {}: cannot {} {} iterations of {}; split it first", stage.name(),
                          unroll ? "unroll" : "vectorize", extent, it.name);
      }
    }
    return {};
  }

  void place_loops(const Stage& stage, StageDomain* d) {
    const std::size_t rank = stage.op.axes.size();
    std::vector<std::int64_t> roots = d->extents;
    for (const te::Axis& a : stage.op.reduce_axes) roots.push_back(a.extent);
    d->iter_extents = schedule::iter_extents(stage, roots);
    d->leaf_vars.resize(stage.iters.size());
    for (const int id : stage.leaves) {
      d->leaf_vars[idx(id)] = ir::Var::make(stage.iters[idx(id)].name);
      out_.ranges[d->leaf_vars[idx(id)].get()] =
          arith::Interval::of_extent(d->iter_extents[idx(id)]);
    }
    const schedule::IterMap map = schedule::map_iters(stage, d->iter_extents, d->leaf_vars);
    d->stored = schedule::stored_extents(stage, d->iter_extents);
    for (const schedule::Guard& g : map.guards) {
      if (is_stored(stage, map, g)) continue;
      add_condition(stage, ir::lt(g.value, ir::int_imm(g.extent)), g.reduce, d);
    }
    for (std::size_t a = 0; a < rank; ++a) {
      d->local_index.push_back(map.values[a]);
      const ir::Expr value = d->mins[a] + map.values[a];
      d->axis_values[stage.op.axes[a].var.get()] = value;
      // Only tails and lazily read edges can leave the tensor.
      if (d->is_part(a)) {
        // A padded axis may run past the end: its storage has room and its reads are clamped.
        if (d->stored[a] == d->extents[a]) {
          add_condition(stage, ir::lt(value, ir::int_imm(room_of(stage, a))), false, d, true);
        }
        add_condition(stage, ir::le(ir::int_imm(0), value), false, d, true);
      }
    }
    for (std::size_t a = 0; a < stage.op.reduce_axes.size(); ++a) {
      d->axis_values[stage.op.reduce_axes[a].var.get()] = map.values[rank + a];
    }
  }

  // Elements of an axis that may be computed. Constants that are packed in blocks end with a whole
  // block, zeros at its end: a copy may go on until there.
  std::int64_t room_of(const Stage& stage, std::size_t axis) const {
    const te::Op& op = stage.op;
    const std::int64_t extent = op.axes[axis].extent;
    const auto* load = op.values.size() == 1 ? op.values[0].as<ir::Load>() : nullptr;
    if (!load || op.reducer != te::Reducer::kNone || load->indices.size() != op.axes.size() ||
        !load->indices[axis].same_as(op.axes[axis].var))
      return extent;
    const auto layout = state_.layouts.find(load->buffer);
    if (layout == state_.layouts.end()) return extent;
    for (const schedule::LayoutDim& d : layout->second) {
      if (d.dim == static_cast<int>(axis) && d.modulus > 0)
        return (extent + d.modulus - 1) / d.modulus * d.modulus;
    }
    return extent;
  }

  // Storage has room where the guard does not hold: it need not stay.
  static bool is_stored(const Stage& stage, const schedule::IterMap& map,
                        const schedule::Guard& g) {
    const auto end = map.values.begin() + static_cast<std::ptrdiff_t>(stage.op.axes.size());
    return g.tail == schedule::Tail::kPad &&
           std::any_of(map.values.begin(), end,
                       [&](const ir::Expr& value) { return value.same_as(g.value); });
  }

  void add_condition(const Stage& stage, const ir::Expr& cond, bool reduce, StageDomain* d,
                     bool edge = false) {
    const ir::Expr simple = arith::simplify(cond, out_.ranges);
    if (const auto value = ir::as_const_int(simple); value && *value != 0) return;
    Condition c{.expr = simple, .reduce = reduce, .edge = edge};
    for (std::size_t p = 0; p < stage.leaves.size(); ++p) {
      if (ir::uses_var(simple, d->leaf_vars[idx(stage.leaves[p])])) c.level = static_cast<int>(p);
    }
    d->conditions.push_back(std::move(c));
  }

  const State& state_;
  Domains out_;
};

}  // namespace

ir::Expr clamp_index(const ir::Expr& index, std::int64_t extent, const arith::Ranges& ranges) {
  const arith::Interval bounds = arith::const_bounds(index, ranges);
  ir::Expr out = index;
  if (!bounds.hi || *bounds.hi >= extent) out = ir::min(out, ir::int_imm(extent - 1));
  if (!bounds.lo || *bounds.lo < 0) out = ir::max(out, ir::int_imm(0));
  return out;
}

Result<Domains> infer_domains(const State& state) { return DomainBuilder(state).run(); }

}  // namespace tessera::lower
