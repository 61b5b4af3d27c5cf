#include "tessera/lang/arith/simplifier.h"
#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"

namespace tessera::arith {

using ir::Expr;
using ir::Stmt;

namespace {

bool is_gpu_binding(ir::LoopKind kind) { return kind >= ir::LoopKind::kBlockX; }

// A null statement does nothing.
class StmtSimplifier {
 public:
  explicit StmtSimplifier(const Ranges& ranges) : simplify_(ranges) {}

  Stmt visit(const Stmt& s) {
    if (!s) return s;
    switch (s.kind()) {
      case ir::StmtKind::kFor:
        return visit_for(s, *s.as<ir::For>());
      case ir::StmtKind::kStore:
        return visit_store(s, *s.as<ir::Store>());
      case ir::StmtKind::kBlock:
        return visit_block(s, *s.as<ir::Block>());
      case ir::StmtKind::kIf:
        return visit_if(s, *s.as<ir::If>());
      case ir::StmtKind::kAllocate: {
        const auto* node = s.as<ir::Allocate>();
        const Stmt body = visit(node->body);
        if (!body || body.same_as(node->body)) return body ? s : body;
        return ir::Allocate::make(node->buffer, body);
      }
      case ir::StmtKind::kEvaluate: {
        const Expr& old = s.as<ir::Evaluate>()->value;
        const Expr value = simplify_(old);
        return value.same_as(old) ? s : ir::Evaluate::make(value);
      }
      case ir::StmtKind::kBarrier:
        return s;
    }
    return s;
  }

 private:
  Stmt visit_for(const Stmt& s, const ir::For& loop) {
    const Expr extent = simplify_(loop.extent);
    const Interval count = simplify_.context().bounds(extent);
    if (count.hi && *count.hi <= 0) return Stmt();
    Interval range{0, std::nullopt};
    if (count.hi) range.hi = *count.hi - 1;
    Stmt body;
    {
      Simplifier::Scope scope(&simplify_);
      scope.bind(loop.var, range);
      if (count.lo != count.hi) {
        Linear below = to_linear(loop.var);  // var + 1 - extent <= 0
        flatten(extent, -1, &below);
        below.add_constant(1);
        scope.assume_non_positive(below);
      }
      body = visit(loop.body);
    }
    if (!body) return body;
    // The one value of the variable is already in place of its uses.
    if (ir::is_const_int(extent, 1) && !is_gpu_binding(loop.loop_kind)) return body;
    if (extent.same_as(loop.extent) && body.same_as(loop.body)) return s;
    return ir::For::make(loop.var, extent, loop.loop_kind, body);
  }

  Stmt visit_store(const Stmt& s, const ir::Store& store) {
    bool changed = false;
    std::vector<Expr> indices;
    indices.reserve(store.indices.size());
    for (const Expr& old : store.indices) {
      indices.push_back(simplify_(old));
      changed = changed || !indices.back().same_as(old);
    }
    const Expr value = simplify_(store.value);
    if (!changed && value.same_as(store.value)) return s;
    return ir::Store::make(store.buffer, std::move(indices), value);
  }

  Stmt visit_block(const Stmt& s, const ir::Block& block) {
    bool changed = false;
    std::vector<Stmt> stmts;
    stmts.reserve(block.stmts.size());
    for (const Stmt& old : block.stmts) {
      Stmt now = visit(old);
      changed = changed || !now.same_as(old);
      if (now) stmts.push_back(std::move(now));
    }
    if (!changed && !stmts.empty()) return s;
    return stmts.empty() ? Stmt() : ir::Block::make(std::move(stmts));
  }

  Stmt visit_if(const Stmt& s, const ir::If& node) {
    const Expr cond = simplify_(node.cond);
    if (const auto value = ir::as_const_int(cond))
      return visit(*value ? node.then_body : node.else_body);
    const Stmt then_body = visit_branch(cond, true, node.then_body);
    const Stmt else_body = visit_branch(cond, false, node.else_body);
    if (!then_body && !else_body) return Stmt();
    if (!then_body) return ir::If::make(simplify_(ir::logical_not(cond)), else_body);
    if (cond.same_as(node.cond) && then_body.same_as(node.then_body) &&
        else_body.same_as(node.else_body))
      return s;
    return ir::If::make(cond, then_body, else_body);
  }

  Stmt visit_branch(const Expr& cond, bool value, const Stmt& body) {
    if (!body) return body;
    Simplifier::Scope scope(&simplify_);
    scope.assume(cond, value);
    return visit(body);
  }

  Simplifier simplify_;
};

}  // namespace

Stmt simplify(const Stmt& s, const Ranges& ranges) {
  Stmt out = StmtSimplifier(ranges).visit(s);
  if (out) return out;
  const auto* block = s.as<ir::Block>();
  return block && block->stmts.empty() ? s : ir::Block::make({});
}

}  // namespace tessera::arith
