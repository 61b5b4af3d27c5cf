#include "tessera/scheduling/lower/prefetch.h"

#include <optional>

#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/scheduling/schedule/nest.h"

namespace tessera::lower {
namespace {

using schedule::Annotation;
using schedule::Stage;
using schedule::State;

std::size_t idx(int i) { return static_cast<std::size_t>(i); }

// What a prefetch asks for.
constexpr std::int64_t kLineBytes = 64;

std::int64_t line_of(const ir::Expr& load) {
  return kLineBytes / size_bytes(load.as<ir::Load>()->buffer->dtype);
}

ir::Stmt prefetch(const ir::Expr& read) {
  return ir::Evaluate::make(ir::call(ir::Intrinsic::kPrefetch, {read}));
}

// Of one loop.
class Prefetcher {
 public:
  Prefetcher(const State& state, const Domains& domains, const Stage& stage, int iter,
             const Reads& reads)
      : state_(state),
        domains_(domains),
        stage_(stage),
        domain_(domains.of.at(&stage)),
        iter_(iter),
        reads_(reads) {}

  std::vector<ir::Stmt> run() {
    for (const schedule::Prefetch& p : stage_.prefetches) {
      if (p.iter != iter_) continue;
      for (const ir::Expr& v : stage_.op.values) {
        ir::for_each_expr(v, [&](const ir::Expr& x) {
          const auto* load = x.as<ir::Load>();
          if (!load || load->buffer->name != p.buffer || !can_prefetch(*load)) return;
          const ir::Expr now = ir::substitute(x, domain_.axis_values);
          if (p.distance == 0) {
            fetch_next(now);
          } else {
            fetch_ahead(now, p.distance);
          }
        });
      }
    }
    return std::move(out_);
  }

 private:
  bool can_prefetch(const ir::Load& load) const {
    bool direct = reads_.known(load.buffer);
    for (const ir::Expr& index : load.indices) {
      ir::for_each_expr(index, [&](const ir::Expr& e) { direct = direct && !e.as<ir::Load>(); });
    }
    return direct;
  }

  void fetch_ahead(const ir::Expr& now, std::int64_t distance) {
    ir::VarMap ahead;  // this loop `distance` further, the loops inside at their start
    ahead[domain_.leaf_vars[idx(iter_)].get()] = domain_.leaf_vars[idx(iter_)] + distance;
    ir::Expr vector;  // of several lines
    std::int64_t elements = 1;
    for (std::size_t q = idx(stage_.position(iter_)) + 1; q < stage_.leaves.size(); ++q) {
      const int leaf = stage_.leaves[q];
      const ir::Expr& var = domain_.leaf_vars[idx(leaf)];
      ahead[var.get()] = ir::int_imm(0);
      if (stage_.iters[idx(leaf)].annotation != Annotation::kVectorize) continue;
      vector = var;
      elements = domain_.iter_extents[idx(leaf)];
    }
    const bool along = vector && ir::uses_var(now, vector);
    for (std::int64_t at = 0; at < (along ? elements : 1); at += line_of(now)) {
      if (along) ahead[vector.get()] = ir::int_imm(at);
      // Not clamped: past the end of a panel lies the next one, which is what a long distance
      // means.
      out_.push_back(prefetch(reads_.placed(ir::substitute(now, ahead))));
    }
  }

  // How far apart in its storage a read lies when a loop goes one further, all loops at their
  // start; 0 if unknown.
  std::int64_t stride(const ir::Expr& now, const ir::VarMap& start, const ir::Expr& var) const {
    const auto place = [&](std::int64_t at) -> std::optional<std::int64_t> {
      ir::VarMap map = start;
      map[var.get()] = ir::int_imm(at);
      const ir::Expr read = reads_.placed(ir::substitute(now, map));
      const auto* load = read.as<ir::Load>();
      std::int64_t out = 0;
      for (std::size_t d = 0; d < load->indices.size(); ++d) {
        const auto index = ir::as_const_int(arith::simplify(load->indices[d]));
        if (!index) return std::nullopt;
        out = out * load->buffer->shape[d] + *index;
      }
      return out;
    };
    const auto first = place(0), second = place(1);
    return first && second ? *second - *first : 0;
  }

  // A panel is what the loops from here outwards read side by side, until one does not matter to
  // the tensor; that one and those around it read it again. All of those visits together ask for
  // the next panel, each step for its share.
  void fetch_next(const ir::Expr& now) {
    struct Loop {
      ir::Expr var;
      std::int64_t extent;
    };
    std::vector<Loop> loops;
    for (const schedule::NestLoop& l : schedule::loops_around(state_, stage_)) {
      const StageDomain& d = domains_.of.at(l.stage);
      loops.push_back({d.leaf_vars[idx(l.iter)], d.iter_extents[idx(l.iter)]});
    }
    ir::VarMap start;
    std::int64_t share = 1;  // elements that one step reads
    for (std::size_t q = 0; q < stage_.leaves.size(); ++q) {
      const int leaf = stage_.leaves[q];
      const Loop loop{domain_.leaf_vars[idx(leaf)], domain_.iter_extents[idx(leaf)]};
      if (static_cast<int>(q) <= stage_.position(iter_)) {
        loops.push_back(loop);
      } else {
        start[loop.var.get()] = ir::int_imm(0);
        if (ir::uses_var(now, loop.var)) share *= loop.extent;
      }
    }
    ir::VarMap origin = start;
    for (const Loop& l : loops) origin[l.var.get()] = ir::int_imm(0);
    std::size_t at = loops.size();
    std::int64_t steps = 1, visits = 1;
    ir::Expr visit = ir::int_imm(0);  // of all steps of all visits
    const auto beside = [&](const Loop& l) {
      return l.extent == 1 || stride(now, origin, l.var) == steps * share;
    };
    for (; at > 0 && beside(loops[at - 1]); --at) {
      start[loops[at - 1].var.get()] = ir::int_imm(0);
      visit = visit + loops[at - 1].var * steps;
      steps *= loops[at - 1].extent;
    }
    for (; at > 0 && !ir::uses_var(now, loops[at - 1].var); --at) {
      visit = visit + loops[at - 1].var * (steps * visits);
      visits *= loops[at - 1].extent;
    }
    if (visits < 2 || at == 0) return;
    // Behind the last panel lies nothing: looking for its pages takes time.
    const Loop& panels = loops[at - 1];
    const ir::Expr next = (ir::min(panels.var + 1, ir::int_imm(panels.extent - 1)) - panels.var) *
                          stride(now, origin, panels.var);
    const std::int64_t each = (share + visits - 1) / visits;
    const ir::Expr read = reads_.placed(ir::substitute(now, start));
    const auto* load = read.as<ir::Load>();
    for (std::int64_t part = 0; part < each; part += line_of(now)) {
      std::vector<ir::Expr> indices = load->indices;
      indices.back() = indices.back() + next + visit * each + part;
      out_.push_back(prefetch(ir::Load::make(load->buffer, std::move(indices))));
    }
  }

  const State& state_;
  const Domains& domains_;
  const Stage& stage_;
  const StageDomain& domain_;
  int iter_;
  const Reads& reads_;
  std::vector<ir::Stmt> out_;
};

}  // namespace

std::vector<ir::Stmt> prefetches(const State& state, const Domains& domains, const Stage& stage,
                                 int iter, const Reads& reads) {
  return Prefetcher(state, domains, stage, iter, reads).run();
}

ir::Stmt prefetch_tile(const Stage& stage, const StageDomain& domain, int first,
                       const std::vector<ir::Expr>& tile) {
  std::vector<ir::Stmt> fetches;
  fetches.reserve(tile.size());
  for (const ir::Expr& read : tile) fetches.push_back(prefetch(read));
  ir::Stmt out = ir::Block::make(std::move(fetches));
  for (std::size_t q = stage.leaves.size(); q-- > idx(first);) {
    const int id = stage.leaves[q];
    const ir::Expr& var = domain.leaf_vars[idx(id)];
    const std::int64_t extent = domain.iter_extents[idx(id)];
    if (stage.iters[idx(id)].reduce) continue;
    if (stage.iters[idx(id)].annotation == Annotation::kVectorize) {
      out = ir::Block::make({ir::substitute(out, var, ir::int_imm(0)),
                             ir::substitute(out, var, ir::int_imm(extent - 1))});
    } else {
      out = ir::For::make(var, extent, ir::LoopKind::kUnrolled, out);
    }
  }
  return out;
}

}  // namespace tessera::lower
