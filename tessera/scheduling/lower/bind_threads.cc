#include "tessera/scheduling/lower/bind_threads.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tessera/lang/arith/interval.h"
#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

using ir::LoopKind;

// The dimension of a block or thread loop.
int dim_of(LoopKind kind, LoopKind x) { return static_cast<int>(kind) - static_cast<int>(x); }
bool is_block(LoopKind kind) { return kind >= LoopKind::kBlockX && kind <= LoopKind::kBlockZ; }
bool is_thread(LoopKind kind) { return kind >= LoopKind::kThreadX && kind <= LoopKind::kThreadZ; }
LoopKind kind_of(LoopKind x, int dim) { return static_cast<LoopKind>(static_cast<int>(x) + dim); }

// Something around a statement that is still to be placed: a condition, or a loop over virtual
// threads.
struct Pending {
  ir::Expr guard;
  ir::Expr var;
  std::int64_t extent = 0;
};
using PendingList = std::vector<Pending>;

// Variables become those of the launch; accesses of buffers with a copy per virtual thread name it.
class Rename final : public ir::Mutator {
 public:
  ir::VarMap vars;
  struct Copies {
    ir::Buffer buffer;
    std::vector<ir::Expr> which;
  };
  std::map<ir::Buffer, Copies> copies;

  ir::Stmt store(const ir::Store& s) {
    std::vector<ir::Expr> indices;
    rewrite_all(s.indices, &indices);
    const auto it = copies.find(s.buffer);
    if (it != copies.end())
      indices.insert(indices.begin(), it->second.which.begin(), it->second.which.end());
    return ir::Store::make(it == copies.end() ? s.buffer : it->second.buffer, indices,
                           (*this)(s.value));
  }

 private:
  using ir::Mutator::rewrite;
  ir::Expr rewrite(const ir::Expr& e, const ir::Var&) override {
    const auto it = vars.find(e.get());
    return it == vars.end() ? e : it->second;
  }
  ir::Expr rewrite(const ir::Expr& e, const ir::Load& load) override {
    const ir::Expr inner = Mutator::rewrite(e, load);
    const auto it = copies.find(load.buffer);
    if (it == copies.end()) return inner;
    std::vector<ir::Expr> indices = it->second.which;
    const auto& own = inner.as<ir::Load>()->indices;
    indices.insert(indices.end(), own.begin(), own.end());
    return ir::Load::make(it->second.buffer, std::move(indices));
  }
};

// Which of some variables what a statement stores depends on, per buffer: directly, through
// conditions around, and through other buffers that it stores.
class Dependences final : public ir::Visitor {
 public:
  using Vars = std::set<const ir::ExprNode*>;
  std::map<ir::Buffer, Vars> of;

  // `known`: of buffers that other statements store.
  Dependences(std::vector<ir::Expr> vars, std::map<ir::Buffer, Vars> known)
      : of(std::move(known)), vars_(std::move(vars)) {}

  void run(const ir::Stmt& s) {
    for (std::size_t before = count() + 1; before != count();) {
      before = count();
      (*this)(s);
    }
  }

 private:
  using ir::Visitor::visit;
  std::size_t count() const {
    std::size_t n = 0;
    for (const auto& [buffer, vars] : of) n += vars.size();
    return n;
  }
  void add(const ir::Expr& e, Vars* out) const {
    for (const ir::Expr& v : vars_) {
      if (ir::uses_var(e, v)) out->insert(v.get());
    }
    ir::for_each_expr(e, [&](const ir::Expr& x) {
      const auto* load = x.as<ir::Load>();
      const auto it = load ? of.find(load->buffer) : of.end();
      if (it != of.end()) out->insert(it->second.begin(), it->second.end());
    });
  }
  void visit(const ir::Store& store) override {
    Vars found = around_;
    add(store.value, &found);
    for (const ir::Expr& e : store.indices) add(e, &found);
    of[store.buffer].insert(found.begin(), found.end());
  }
  void visit(const ir::If& branch) override {
    const Vars outer = around_;
    add(branch.cond, &around_);
    (*this)(branch.then_body);
    if (branch.else_body) (*this)(branch.else_body);
    around_ = outer;
  }

  std::vector<ir::Expr> vars_;
  Vars around_;  // of the conditions around
};

class Binder {
 public:
  Binder(const LaunchShape& shape, const CooperativeLoops& cooperative, const SetExtents& set)
      : shape_(shape), cooperative_(cooperative), set_(set) {}

  ir::Stmt run(const ir::Stmt& stage) {
    find_ranges(stage);
    ir::Stmt out = visit(stage, {}, 0);
    if (!out) out = ir::Block::make({});
    for (int d = 0; d < 3; ++d) {  // thread x innermost, and always there
      if (d > 0 && shape_.block[idx(d)] == 1) continue;
      out = ir::For::make(shape_.thread_vars[idx(d)], shape_.block[idx(d)],
                          kind_of(LoopKind::kThreadX, d), out);
    }
    for (std::size_t i = shared_.size(); i-- > 0;) out = ir::Allocate::make(shared_[i], out);
    for (int d = 0; d < 3; ++d) {
      if (d > 0 && shape_.grid[idx(d)] == 1) continue;
      out = ir::For::make(shape_.block_vars[idx(d)], shape_.grid[idx(d)],
                          kind_of(LoopKind::kBlockX, d), out);
    }
    return out;
  }

 private:
  static std::size_t idx(int i) { return static_cast<std::size_t>(i); }

  void find_ranges(const ir::Stmt& stage) {
    for (int d = 0; d < 3; ++d) {
      ranges_[shape_.thread_vars[idx(d)].get()] = arith::Interval::of_extent(shape_.block[idx(d)]);
      ranges_[shape_.block_vars[idx(d)].get()] = arith::Interval::of_extent(shape_.grid[idx(d)]);
    }
    ir::for_each_stmt(stage, [&](const ir::Stmt& x) {
      const auto* loop = x.as<ir::For>();
      const auto extent = loop ? ir::as_const_int(loop->extent) : std::nullopt;
      if (extent) ranges_[loop->var.get()] = arith::Interval::of_extent(*extent);
    });
  }

  const Cooperative* cooperative(const ir::For& loop) const {
    const auto it = cooperative_.find(loop.var.get());
    return it == cooperative_.end() || it->second.stage == stage_ ? nullptr : &it->second;
  }

  // Holds loops that all threads run together.
  bool is_collective(const ir::Stmt& s) const {
    bool found = false;
    ir::for_each_stmt(s, [&](const ir::Stmt& x) {
      const auto* loop = x.as<ir::For>();
      found = found || (loop && cooperative(*loop));
    });
    return found;
  }

  bool uses_threads(const ir::Expr& e) const {
    return std::any_of(shape_.thread_vars.begin(), shape_.thread_vars.end(),
                       [&](const ir::Expr& v) { return ir::uses_var(e, v); });
  }

  // Differs between threads of the block, or between virtual threads.
  bool is_divergent(const ir::Expr& e, const PendingList& pending) const {
    bool reads = false;
    ir::for_each_expr(e, [&](const ir::Expr& x) { reads = reads || x.as<ir::Load>(); });
    return reads || uses_threads(e) || std::any_of(pending.begin(), pending.end(), [&](auto& p) {
             return p.var && ir::uses_var(e, p.var);
           });
  }

  // Sets registers to constants: harmless in any thread, and what an exchange needs in all of them.
  static bool only_initialises(const ir::Stmt& s) {
    bool only = true;
    ir::for_each_stmt(s, [&](const ir::Stmt& x) {
      if (const auto* store = x.as<ir::Store>()) {
        only = only && store->buffer->scope == ir::Scope::kStack &&
               (store->value.as<ir::IntImm>() || store->value.as<ir::FloatImm>());
      } else if (!x.as<ir::Block>() && !x.as<ir::For>()) {
        only = false;
      }
    });
    return only;
  }

  // Adds up what lies in shared memory: harmless in threads whose results are not stored.
  bool only_computes(const ir::Stmt& s) const {
    bool only = true, shared = false;
    std::set<ir::Buffer> stored;
    ir::for_each_stmt(s, [&](const ir::Stmt& x) {
      if (const auto* store = x.as<ir::Store>()) {
        only = only && store->buffer->scope == ir::Scope::kStack;
        stored.insert(store->buffer);
      }
      if (x.as<ir::Evaluate>() || x.as<ir::Barrier>()) only = false;
    });
    if (!only) return false;
    ir::for_each_expr(s, [&](const ir::Expr& e) {
      const auto* load = e.as<ir::Load>();
      if (e.as<ir::Call>()) only = false;
      if (!load || !only || stored.count(load->buffer)) return;
      shared = true;
      only = is_set(*load);
    });
    return only && shared;
  }

  bool is_set(const ir::Load& load) const {
    const auto extents = set_.find(load.buffer);
    if (extents == set_.end()) return false;
    for (std::size_t d = 0; d < load.indices.size(); ++d) {
      const ir::Expr index = arith::simplify(load.indices[d], ranges_);
      const arith::Interval bounds = arith::const_bounds(index, ranges_);
      if (!bounds.lo || *bounds.lo < 0 || !bounds.hi || *bounds.hi >= extents->second[d])
        return false;
    }
    return true;
  }

  ir::Stmt place(const PendingList& pending, ir::Stmt s) const {
    if (!s) return s;
    const bool initial = only_initialises(s) || only_computes(s);
    for (std::size_t i = pending.size(); i-- > 0;) {
      const Pending& p = pending[i];
      if (p.guard) {
        if (!initial) s = ir::If::make(p.guard, s);
      } else if (ir::uses_var(s, p.var)) {  // otherwise all virtual threads do the same
        s = ir::For::make(p.var, p.extent, LoopKind::kUnrolled, s);
      }
    }
    return s;
  }

  // `bound`: thread dimensions that loops around, or conditions, tell apart.
  ir::Stmt visit(const ir::Stmt& s, const PendingList& pending, int bound) {
    if (!s) return s;
    if (!pending.empty() && !is_collective(s)) {
      PendingList rest;
      ir::Expr now;
      for (const Pending& p : pending) {
        const bool waits = p.var || std::any_of(rest.begin(), rest.end(), [&](const Pending& v) {
                             return v.var && ir::uses_var(p.guard, v.var);
                           });
        if (waits) {
          rest.push_back(p);
        } else {
          now = now ? ir::logical_and(now, p.guard) : p.guard;
        }
      }
      if (now) {
        const ir::Stmt body = visit_kind(s, rest, bound);
        const bool harmless = body && (only_initialises(body) || only_computes(body));
        return body && !harmless ? ir::If::make(now, body) : body;
      }
    }
    return visit_kind(s, pending, bound);
  }

  ir::Stmt visit_kind(const ir::Stmt& s, const PendingList& pending, int bound) {
    switch (s.kind()) {
      case ir::StmtKind::kFor:
        return visit_for(s, *s.as<ir::For>(), pending, bound);
      case ir::StmtKind::kBlock: {
        std::vector<ir::Stmt> out;
        for (const ir::Stmt& child : s.as<ir::Block>()->stmts)
          out.push_back(visit(child, pending, bound));
        const ir::Stmt block = ir::Block::make(std::move(out));
        const auto* rest = block.as<ir::Block>();
        return rest && rest->stmts.empty() ? ir::Stmt() : block;
      }
      case ir::StmtKind::kIf:
        return visit_if(s, *s.as<ir::If>(), pending, bound);
      case ir::StmtKind::kAllocate:
        return visit_allocate(*s.as<ir::Allocate>(), pending, bound);
      case ir::StmtKind::kStore:
        return visit_store(*s.as<ir::Store>(), pending, bound);
      case ir::StmtKind::kEvaluate:  // a prefetch
        return {};
      case ir::StmtKind::kBarrier:
        return s;
    }
    return s;
  }

  ir::Stmt visit_for(const ir::Stmt& s, const ir::For& loop, PendingList pending, int bound) {
    const std::int64_t extent = ir::as_const_int(loop.extent).value_or(0);
    if (is_block(loop.loop_kind)) {
      const int d = dim_of(loop.loop_kind, LoopKind::kBlockX);
      rename_.vars[loop.var.get()] =
          shape_.grid[idx(d)] == 1 ? ir::int_imm(0) : shape_.block_vars[idx(d)];
      return visit(loop.body, pending, bound);
    }
    if (const Cooperative* c = cooperative(loop)) return enter(s, *c, pending);
    if (is_thread(loop.loop_kind)) {
      const int d = dim_of(loop.loop_kind, LoopKind::kThreadX);
      const ir::Expr& thread = shape_.thread_vars[idx(d)];
      rename_.vars[loop.var.get()] = shape_.block[idx(d)] == 1 ? ir::int_imm(0) : thread;
      if (extent < shape_.block[idx(d)])
        pending.push_back({.guard = ir::lt(thread, ir::int_imm(extent))});
      return visit(loop.body, pending, bound | 1 << d);
    }
    if (loop.loop_kind == LoopKind::kVThread) {
      pending.push_back({.guard = {}, .var = loop.var, .extent = extent});
      return visit(loop.body, pending, bound);
    }
    const bool virtual_lanes =
        loop.loop_kind == LoopKind::kVectorized &&
        std::any_of(pending.begin(), pending.end(), [](const Pending& p) { return bool(p.var); });
    const ir::Stmt body = visit(loop.body, virtual_lanes ? PendingList{} : pending, bound);
    if (!body) return body;
    const ir::Stmt out = ir::For::make(loop.var, rename_(loop.extent), loop.loop_kind, body);
    return virtual_lanes ? place(pending, out) : out;
  }

  // What the threads around do does not matter to a cooperative stage: it runs once, in all
  // threads.
  ir::Stmt enter(const ir::Stmt& s, const Cooperative& c, const PendingList& pending) {
    PendingList inner;
    for (const Pending& p : pending) {
      if (p.guard && !is_divergent(p.guard, pending)) inner.push_back(p);
    }
    for (int d = 0; d < 3; ++d) {
      if ((c.dims >> d & 1) == 0 && shape_.block[idx(d)] > 1)
        inner.push_back({.guard = ir::eq(shape_.thread_vars[idx(d)], ir::int_imm(0))});
    }
    const int outer = std::exchange(stage_, c.stage);
    const ir::Stmt out = visit(s, inner, (kAllThreadDims & ~c.dims) | c.apart);
    stage_ = outer;
    return out;
  }

  ir::Stmt visit_if(const ir::Stmt& s, const ir::If& branch, PendingList pending, int bound) {
    const ir::Expr cond = rename_(branch.cond);
    if (is_collective(s) && is_divergent(cond, pending)) {
      PendingList otherwise = pending;
      otherwise.push_back({.guard = ir::logical_not(cond)});
      pending.push_back({.guard = cond});
      return ir::Block::make(
          {visit(branch.then_body, pending, bound), visit(branch.else_body, otherwise, bound)});
    }
    const bool virtual_branch = std::any_of(pending.begin(), pending.end(), [&](const Pending& p) {
      return p.var && ir::uses_var(cond, p.var);
    });
    const PendingList inside = virtual_branch ? PendingList{} : pending;
    const ir::Stmt then_body = visit(branch.then_body, inside, bound);
    const ir::Stmt else_body = visit(branch.else_body, inside, bound);
    ir::Stmt out;
    if (then_body) out = ir::If::make(cond, then_body, else_body);
    if (!then_body && else_body) out = ir::If::make(ir::logical_not(cond), else_body);
    return virtual_branch ? place(pending, out) : out;
  }

  ir::Stmt visit_allocate(const ir::Allocate& alloc, const PendingList& pending, int bound) {
    if (alloc.buffer->scope == ir::Scope::kShared) {
      shared_.push_back(alloc.buffer);
      return visit(alloc.body, pending, bound);
    }
    // One copy per virtual thread, where they store different things.
    Rename::Copies copies;
    std::vector<std::int64_t> shape;
    const Dependences::Vars differs = dependences(alloc, pending);
    for (const Pending& p : pending) {
      if (!p.var || !differs.count(p.var.get())) continue;
      shape.push_back(p.extent);
      copies.which.push_back(p.var);
    }
    ir::Buffer buffer = alloc.buffer;
    if (!shape.empty()) {
      shape.insert(shape.end(), buffer->shape.begin(), buffer->shape.end());
      buffer = ir::Buffer::make(buffer->name, buffer->dtype, shape, buffer->scope);
      copies.buffer = buffer;
      rename_.copies[alloc.buffer] = copies;
    }
    const ir::Stmt body = visit(alloc.body, pending, bound);
    return body ? ir::Allocate::make(buffer, body) : body;
  }

  Dependences::Vars dependences(const ir::Allocate& alloc, const PendingList& pending) const {
    std::vector<ir::Expr> vars;
    for (const Pending& p : pending) {
      if (p.var) vars.push_back(p.var);
    }
    if (vars.empty()) return {};
    std::map<ir::Buffer, Dependences::Vars> known;
    for (const auto& [buffer, copies] : rename_.copies) {
      for (const ir::Expr& which : copies.which) known[buffer].insert(which.get());
    }
    Dependences found(std::move(vars), std::move(known));
    found.run(alloc.body);
    return found.of[alloc.buffer];
  }

  ir::Stmt visit_store(const ir::Store& store, PendingList pending, int bound) {
    for (int d = 0; d < 3 && store.buffer->scope != ir::Scope::kStack; ++d) {
      if ((bound >> d & 1) == 0 && shape_.block[idx(d)] > 1)  // one of the threads that agree
        pending.push_back({.guard = ir::eq(shape_.thread_vars[idx(d)], ir::int_imm(0))});
    }
    return place(pending, rename_.store(store));
  }

  const LaunchShape& shape_;
  const CooperativeLoops& cooperative_;
  const SetExtents& set_;
  Rename rename_;
  arith::Ranges ranges_;  // of all loops
  std::vector<ir::Buffer> shared_;
  int stage_ = -1;  // the cooperative stage that is being visited
};

}  // namespace

LaunchShape make_launch_shape() {
  LaunchShape shape;
  const std::array names = {"bx", "by", "bz", "tx", "ty", "tz"};
  for (std::size_t d = 0; d < 3; ++d) {
    shape.block_vars[d] = ir::Var::make(names[d]);
    shape.thread_vars[d] = ir::Var::make(names[3 + d]);
  }
  return shape;
}

ir::Stmt bind_threads(const ir::Stmt& stage, const LaunchShape& shape,
                      const CooperativeLoops& cooperative, const SetExtents& set) {
  return Binder(shape, cooperative, set).run(stage);
}

}  // namespace tessera::lower
