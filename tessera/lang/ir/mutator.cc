#include "tessera/lang/ir/visitor.h"

namespace tessera::ir {

Expr Mutator::operator()(const Expr& e) {
  switch (e.kind()) {
#define TESSERA_V(name)   \
  case ExprKind::k##name: \
    return rewrite(e, static_cast<const name&>(*e.get()));
    TESSERA_EXPR_KINDS(TESSERA_V)
#undef TESSERA_V
  }
  return e;
}

Stmt Mutator::operator()(const Stmt& s) {
  switch (s.kind()) {
#define TESSERA_V(name)   \
  case StmtKind::k##name: \
    return rewrite(s, static_cast<const name&>(*s.get()));
    TESSERA_STMT_KINDS(TESSERA_V)
#undef TESSERA_V
  }
  return s;
}

bool Mutator::rewrite_all(const std::vector<Expr>& in, std::vector<Expr>* out) {
  bool changed = false;
  out->clear();
  out->reserve(in.size());
  for (const Expr& e : in) {
    out->push_back((*this)(e));
    changed = changed || !out->back().same_as(e);
  }
  return changed;
}

Expr Mutator::rewrite(const Expr& e, const IntImm&) { return e; }
Expr Mutator::rewrite(const Expr& e, const FloatImm&) { return e; }
Expr Mutator::rewrite(const Expr& e, const Var&) { return e; }

Expr Mutator::rewrite(const Expr& e, const Binary& node) {
  Expr a = (*this)(node.a);
  Expr b = (*this)(node.b);
  if (a.same_as(node.a) && b.same_as(node.b)) return e;
  return Binary::make(node.op, std::move(a), std::move(b));
}

Expr Mutator::rewrite(const Expr& e, const Select& node) {
  Expr cond = (*this)(node.cond);
  Expr on_true = (*this)(node.on_true);
  Expr on_false = (*this)(node.on_false);
  if (cond.same_as(node.cond) && on_true.same_as(node.on_true) && on_false.same_as(node.on_false))
    return e;
  return Select::make(std::move(cond), std::move(on_true), std::move(on_false));
}

Expr Mutator::rewrite(const Expr& e, const Cast& node) {
  Expr value = (*this)(node.value);
  return value.same_as(node.value) ? e : Cast::make(node.type.dtype, std::move(value));
}

Expr Mutator::rewrite(const Expr& e, const Load& node) {
  std::vector<Expr> indices;
  return rewrite_all(node.indices, &indices) ? Load::make(node.buffer, std::move(indices)) : e;
}

Expr Mutator::rewrite(const Expr& e, const Ramp& node) {
  Expr base = (*this)(node.base);
  return base.same_as(node.base) ? e : Ramp::make(std::move(base), node.stride, node.type.lanes);
}

Expr Mutator::rewrite(const Expr& e, const Broadcast& node) {
  Expr value = (*this)(node.value);
  return value.same_as(node.value) ? e : Broadcast::make(std::move(value), node.type.lanes);
}

Expr Mutator::rewrite(const Expr& e, const Shuffle& node) {
  Expr value = (*this)(node.value);
  return value.same_as(node.value) ? e : Shuffle::make(std::move(value), node.picks);
}

Expr Mutator::rewrite(const Expr& e, const Call& node) {
  std::vector<Expr> args;
  if (!rewrite_all(node.args, &args)) return e;
  if (node.fn == Intrinsic::kBitcast)
    return Call::make_bitcast(node.type.dtype, std::move(args[0]));
  return Call::make(node.fn, std::move(args));
}

Stmt Mutator::rewrite(const Stmt& s, const For& node) {
  Expr extent = (*this)(node.extent);
  Stmt body = (*this)(node.body);
  if (!body) return Stmt();
  if (extent.same_as(node.extent) && body.same_as(node.body)) return s;
  return For::make(node.var, std::move(extent), node.loop_kind, std::move(body));
}

Stmt Mutator::rewrite(const Stmt& s, const Store& node) {
  std::vector<Expr> indices;
  const bool changed = rewrite_all(node.indices, &indices);
  Expr value = (*this)(node.value);
  if (!changed && value.same_as(node.value)) return s;
  return Store::make(node.buffer, std::move(indices), std::move(value));
}

Stmt Mutator::rewrite(const Stmt& s, const Block& node) {
  std::vector<Stmt> stmts;
  stmts.reserve(node.stmts.size());
  bool changed = false;
  for (const Stmt& child : node.stmts) {
    stmts.push_back((*this)(child));
    changed = changed || !stmts.back().same_as(child);
  }
  if (!changed) return s;
  Stmt block = Block::make(std::move(stmts));
  const auto* rest = block.as<Block>();
  return rest && rest->stmts.empty() ? Stmt() : block;  // everything was removed: so is the block
}

Stmt Mutator::rewrite(const Stmt& s, const If& node) {
  Expr cond = (*this)(node.cond);
  Stmt then_body = (*this)(node.then_body);
  Stmt else_body = node.else_body ? (*this)(node.else_body) : Stmt();
  if (!then_body && !else_body) return Stmt();
  if (cond.same_as(node.cond) && then_body.same_as(node.then_body) &&
      else_body.same_as(node.else_body))
    return s;
  if (!then_body)
    return If::make(Call::make(Intrinsic::kNot, {std::move(cond)}), std::move(else_body));
  return If::make(std::move(cond), std::move(then_body), std::move(else_body));
}

Stmt Mutator::rewrite(const Stmt& s, const Allocate& node) {
  Stmt body = (*this)(node.body);
  if (!body) return Stmt();
  return body.same_as(node.body) ? s : Allocate::make(node.buffer, std::move(body));
}

Stmt Mutator::rewrite(const Stmt& s, const Evaluate& node) {
  Expr value = (*this)(node.value);
  return value.same_as(node.value) ? s : Evaluate::make(std::move(value));
}

Stmt Mutator::rewrite(const Stmt& s, const Barrier&) { return s; }

}  // namespace tessera::ir
