#include "tessera/scheduling/lower/free_edges.h"

#include <algorithm>
#include <map>

#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

using schedule::Attach;
using schedule::Stage;
using schedule::State;

class EdgeFreer {
 public:
  EdgeFreer(const State& state, Domains* domains) : state_(state), domains_(*domains) {}

  void run() {
    for (const Stage& stage : state_.stages) {
      StageDomain& d = domains_.of.at(&stage);
      if (stage.attach.kind == Attach::Kind::kAt) free(stage, &d);
      if (stage.op.reducer == te::Reducer::kSum && reads_whole(stage, d)) run_on(stage, &d);
    }
  }

 private:
  void free(const Stage& stage, StageDomain* d) {
    const bool cut = std::any_of(d->conditions.begin(), d->conditions.end(),
                                 [](const Condition& c) { return c.edge; });
    if (cut && stage.op.reducer == te::Reducer::kNone) {
      d->edges = StageDomain::Edges::kFill;
    } else if (cut && reads_whole(stage, *d)) {
      d->edges = StageDomain::Edges::kIgnore;
    } else if (cut) {
      return;
    }
    for (const ir::Buffer& b : stage.op.outputs) whole_[b] = &stage;
  }

  // All reads lie in storage, and what lies there is set, also beyond the edges.
  bool reads_whole(const Stage& stage, const StageDomain& d) const {
    bool ok = true;
    for (const ir::Expr& v : stage.op.values) {
      ir::for_each_expr(v, [&](const ir::Expr& e) {
        const auto* load = e.as<ir::Load>();
        if (!load || !ok) return;
        const auto from = whole_.find(load->buffer);
        ok = from != whole_.end();
        for (std::size_t dim = 0; ok && dim < load->indices.size(); ++dim) {
          if (is_part(*from->second, dim)) continue;  // holds what is read
          const ir::Expr index = ir::substitute(load->indices[dim], d.axis_values);
          const arith::Interval bounds = arith::const_bounds(index, domains_.ranges);
          ok = bounds.lo && *bounds.lo >= 0 && bounds.hi &&
               *bounds.hi < from->second->op.axes[dim].extent;
        }
      });
    }
    return ok;
  }

  bool is_part(const Stage& stage, std::size_t dim) const {
    return domains_.of.at(&stage).is_part(dim);
  }

  // A product of loads, each of which is zero where the axis has ended.
  bool vanishes(const ir::Expr& e, const te::Axis& axis) const {
    if (const auto* cast = e.as<ir::Cast>()) return vanishes(cast->value, axis);
    if (const auto* product = e.as<ir::Binary>(); product && product->op == ir::BinaryOp::kMul)
      return vanishes(product->a, axis) && vanishes(product->b, axis);
    const auto* load = e.as<ir::Load>();
    if (!load) return false;
    const Stage& from = *whole_.at(load->buffer);
    if (domains_.of.at(&from).edges != StageDomain::Edges::kFill) return false;
    for (std::size_t dim = 0; dim < load->indices.size(); ++dim) {
      if (load->indices[dim].same_as(axis.var) && is_part(from, dim) &&
          from.op.axes[dim].extent == axis.extent)
        return true;
    }
    return false;
  }

  void run_on(const Stage& stage, StageDomain* d) const {
    for (const te::Axis& axis : stage.op.reduce_axes) {
      if (!vanishes(stage.op.values[0], axis)) continue;
      const ir::Expr inside = arith::simplify(
          ir::lt(d->axis_values.at(axis.var.get()), ir::int_imm(axis.extent)), domains_.ranges);
      for (Condition& c : d->conditions) c.moot = c.moot || ir::equal(c.expr, inside);
    }
  }

  const State& state_;
  Domains& domains_;
  std::map<ir::Buffer, const Stage*> whole_;  // by what they store: every element of it is set
};

}  // namespace

void free_edges(const State& state, Domains* domains) { EdgeFreer(state, domains).run(); }

}  // namespace tessera::lower
