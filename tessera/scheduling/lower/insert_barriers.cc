#include "tessera/scheduling/lower/insert_barriers.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <vector>

#include "tessera/lang/arith/interval.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

// One access of shared memory: index = sum(per_thread[d] * thread d) + something in lo..hi that is
// a multiple of `step` plus `constant`, or anything when not `affine`.
struct Access {
  ir::Buffer buffer;
  bool write = false;
  bool affine = false;
  std::array<std::int64_t, 3> per_thread{};
  std::int64_t lo = 0, hi = 0, step = 0, constant = 0;
};
using Accesses = std::vector<Access>;

struct ThreadVar {
  ir::Expr var;
  std::int64_t extent = 1;
};

class BarrierPlacer {
 public:
  explicit BarrierPlacer(std::vector<ThreadVar> threads, arith::Ranges ranges)
      : threads_(std::move(threads)), ranges_(std::move(ranges)) {}

  ir::Stmt run(const ir::Stmt& body) {
    Accesses before;
    return visit(body, &before);
  }

 private:
  Access describe(const ir::Buffer& b, const std::vector<ir::Expr>& indices, bool write) const {
    Access a{.buffer = b, .write = write};
    if (indices.size() != 1 || indices[0].lanes() != 1) return a;
    const auto form = arith::linear_form(indices[0]);
    if (!form) return a;
    a.lo = a.hi = a.constant = form->constant;
    for (const auto& [var, coefficient] : form->coefficients) {
      const auto thread =
          std::find_if(threads_.begin(), threads_.end(),
                       [var = var](const ThreadVar& t) { return t.var.get() == var; });
      if (thread != threads_.end()) {
        a.per_thread[static_cast<std::size_t>(thread - threads_.begin())] = coefficient;
        continue;
      }
      const auto range = ranges_.find(var);
      if (range == ranges_.end() || !range->second.lo || !range->second.hi) return a;
      const std::int64_t from = coefficient * *range->second.lo;
      const std::int64_t to = coefficient * *range->second.hi;
      a.lo += std::min(from, to);
      a.hi += std::max(from, to);
      a.step = std::gcd(a.step, coefficient);
    }
    a.affine = true;
    return a;
  }

  // Two different threads never meet in an element: their parts of the index differ by more than
  // the rest can make up for, or by less than the steps of the rest.
  bool apart(const Access& a, const Access& b) const {
    if (!a.affine || !b.affine || a.per_thread != b.per_thread) return false;
    std::vector<std::pair<std::int64_t, std::int64_t>> strides;  // of a thread, and its extent
    for (std::size_t d = 0; d < threads_.size(); ++d) {
      if (threads_[d].extent > 1)
        strides.emplace_back(std::abs(a.per_thread[d]), threads_[d].extent);
    }
    std::sort(strides.begin(), strides.end());
    std::int64_t span = 0, nearest = 0;  // farthest and nearest two threads seen so far
    for (const auto& [stride, extent] : strides) {
      if (stride <= span) return false;
      nearest = nearest == 0 ? stride : std::min(nearest, stride - span);
      span += stride * (extent - 1);
    }
    if (std::max(a.hi - b.lo, b.hi - a.lo) < nearest) return true;
    const std::int64_t step = std::gcd(std::gcd(a.step, b.step), a.constant - b.constant);
    return step == 0 || span < step;
  }

  bool conflict(const Access& a, const Access& b) const {
    return a.buffer == b.buffer && a.write != b.write && !apart(a, b);
  }
  bool conflict(const Accesses& a, const Accesses& b) const {
    return std::any_of(a.begin(), a.end(), [&](const Access& x) {
      return std::any_of(b.begin(), b.end(), [&](const Access& y) { return conflict(x, y); });
    });
  }

  void loads(const ir::Expr& e, const ir::Buffer& own, Accesses* out) const {
    ir::for_each_expr(e, [&](const ir::Expr& x) {
      const auto* load = x.as<ir::Load>();
      if (load && load->buffer->scope == ir::Scope::kShared && !(load->buffer == own))
        out->push_back(describe(load->buffer, load->indices, false));
    });
  }

  void collect(const ir::Stmt& s, Accesses* out) {
    ir::for_each_stmt(s, [&](const ir::Stmt& x) {
      if (const auto* loop = x.as<ir::For>()) {
        const auto extent = ir::as_const_int(loop->extent);
        ranges_[loop->var.get()] = extent ? arith::Interval::of_extent(*extent) : arith::Interval{};
        loads(loop->extent, {}, out);
      } else if (const auto* branch = x.as<ir::If>()) {
        loads(branch->cond, {}, out);
      } else if (const auto* store = x.as<ir::Store>()) {
        const bool shared = store->buffer->scope == ir::Scope::kShared;
        if (shared) out->push_back(describe(store->buffer, store->indices, true));
        for (const ir::Expr& e : store->indices) loads(e, store->buffer, out);
        loads(store->value, store->buffer, out);
      }
    });
  }

  // `open`: accesses since the last barrier.
  ir::Stmt visit(const ir::Stmt& s, Accesses* open) {
    if (const auto* block = s.as<ir::Block>()) {
      std::vector<ir::Stmt> out;
      for (const ir::Stmt& child : block->stmts) out.push_back(visit(child, open));
      return ir::Block::make(std::move(out));
    }
    if (const auto* alloc = s.as<ir::Allocate>())
      return ir::Allocate::make(alloc->buffer, visit(alloc->body, open));
    Accesses own;
    collect(s, &own);
    if (!conflict(own, own)) {
      const bool wait = conflict(*open, own);
      if (wait) open->clear();
      open->insert(open->end(), own.begin(), own.end());
      return wait ? ir::Block::make({ir::Barrier::make(), s}) : s;
    }
    if (const auto* loop = s.as<ir::For>()) return visit_loop(*loop, open);
    const auto* branch = s.as<ir::If>();
    TESSERA_CHECK(branch, "statement that conflicts with itself");
    Accesses otherwise = *open;
    const ir::Stmt then_body = visit(branch->then_body, open);
    const ir::Stmt else_body =
        branch->else_body ? visit(branch->else_body, &otherwise) : ir::Stmt();
    open->insert(open->end(), otherwise.begin(), otherwise.end());
    return ir::If::make(branch->cond, then_body, else_body);
  }

  // What is open at the end of an iteration is open at the start of the next. One more round may
  // find that a barrier of the first round closes less, so it repeats until nothing is added.
  ir::Stmt visit_loop(const ir::For& loop, Accesses* open) {
    Accesses entry = *open;
    for (int round = 0;; ++round) {
      Accesses exit = entry;
      const ir::Stmt body = visit(loop.body, &exit);
      const bool settled = std::all_of(exit.begin(), exit.end(), [&](const Access& x) {
        return std::any_of(entry.begin(), entry.end(), [&](const Access& y) {
          return x.buffer == y.buffer && x.write == y.write && x.affine == y.affine &&
                 x.per_thread == y.per_thread && x.lo == y.lo && x.hi == y.hi && x.step == y.step &&
                 x.constant == y.constant;
        });
      });
      if (settled) {
        *open = std::move(exit);
        return ir::For::make(loop.var, loop.extent, loop.loop_kind, body);
      }
      TESSERA_CHECK(round < 64, "barriers of loop {} do not settle", loop.var.as<ir::Var>()->name);
      entry.insert(entry.end(), exit.begin(), exit.end());
    }
  }

  std::vector<ThreadVar> threads_;
  arith::Ranges ranges_;
};

class InsertBarriers final : public ir::Mutator {
  using ir::Mutator::rewrite;
  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    const bool thread =
        loop.loop_kind >= ir::LoopKind::kThreadX && loop.loop_kind <= ir::LoopKind::kThreadZ;
    const auto extent = ir::as_const_int(loop.extent);
    ranges_[loop.var.get()] = extent ? arith::Interval::of_extent(*extent) : arith::Interval{};
    if (thread) threads_.push_back({loop.var, extent.value_or(2)});
    ir::Stmt out = s;
    if (loop.loop_kind == ir::LoopKind::kThreadX) {  // the innermost of them
      const bool alone = std::all_of(threads_.begin(), threads_.end(),
                                     [](const ThreadVar& t) { return t.extent == 1; });
      if (!alone) {
        out = ir::For::make(loop.var, loop.extent, loop.loop_kind,
                            BarrierPlacer(threads_, ranges_).run(loop.body));
      }
    } else {
      out = Mutator::rewrite(s, loop);
    }
    if (thread) threads_.pop_back();
    return out;
  }

  std::vector<ThreadVar> threads_;
  arith::Ranges ranges_;
};

}  // namespace

ir::Stmt insert_barriers(const ir::Stmt& s) { return InsertBarriers()(s); }

}  // namespace tessera::lower
