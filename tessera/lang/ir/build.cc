#include "tessera/lang/ir/build.h"

#include <cmath>

#include "tessera/lang/ir/fold.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::ir {
namespace {

// The constant below any number of Broadcasts, or null.
const ExprNode* constant(const Expr& e) {
  const Expr* at = &e;
  while (const auto* broadcast = at->as<Broadcast>()) at = &broadcast->value;
  return at->kind() == ExprKind::kIntImm || at->kind() == ExprKind::kFloatImm ? at->get() : nullptr;
}

Expr fold_scalars(BinaryOp op, const ExprNode* a, const ExprNode* b) {
  const DType t = a->type.dtype;
  if (a->kind == ExprKind::kIntImm) {
    const auto value =
        fold_int(op, t, static_cast<const IntImm*>(a)->value, static_cast<const IntImm*>(b)->value);
    return IntImm::make(is_comparison(op) ? DType::kBool : t, value);
  }
  const double x = static_cast<const FloatImm*>(a)->value;
  const double y = static_cast<const FloatImm*>(b)->value;
  if (is_comparison(op)) return bool_imm(fold_float_compare(op, x, y));
  return FloatImm::make(t, fold_float(op, t, x, y));
}

Expr binary(BinaryOp op, Expr a, Expr b) {
  const ExprNode* x = constant(a);
  const ExprNode* y = x ? constant(b) : nullptr;
  if (!y || a.type() != b.type()) return Binary::make(op, std::move(a), std::move(b));
  return Broadcast::make(fold_scalars(op, x, y), a.lanes());
}

Expr fold_cast(DType to, const ExprNode* v) {
  if (const auto from = v->type.dtype; v->kind == ExprKind::kIntImm) {
    const auto value = static_cast<const IntImm*>(v)->value;
    return is_float(to) ? FloatImm::make(to, int_to_float(to, from, value))
                        : IntImm::make(to, value);
  }
  const double value = static_cast<const FloatImm*>(v)->value;
  return is_float(to) ? FloatImm::make(to, value) : IntImm::make(to, float_to_int(to, value));
}

class Substitute final : public Mutator {
 public:
  explicit Substitute(const VarMap& map) : map_(map) {}

 private:
  using Mutator::rewrite;

  Expr rewrite(const Expr& e, const Var& node) override {
    const auto it = map_.find(&node);
    if (it == map_.end()) return e;
    TESSERA_CHECK(it->second.type() == e.type(), "variable {} of {} replaced by {}", node.name,
                  to_text(e.type()), to_text(it->second.type()));
    return it->second;
  }

  Expr rewrite(const Expr& e, const Binary& node) override {
    Expr a = (*this)(node.a);
    Expr b = (*this)(node.b);
    if (a.same_as(node.a) && b.same_as(node.b)) return e;
    return binary(node.op, std::move(a), std::move(b));
  }

  const VarMap& map_;
};

}  // namespace

Expr int_imm(std::int64_t v) { return IntImm::make(DType::kI64, v); }

Expr imm(DType t, double v) {
  return is_float(t) ? FloatImm::make(t, v) : IntImm::make(t, float_to_int(t, v));
}

Expr imm_like(Type t, double v) { return Broadcast::make(imm(t.dtype, v), t.lanes); }

Expr int_like(Type t, std::int64_t v) {
  Expr scalar = is_float(t.dtype) ? FloatImm::make(t.dtype, int_to_float(t.dtype, DType::kI64, v))
                                  : IntImm::make(t.dtype, v);
  return Broadcast::make(std::move(scalar), t.lanes);
}

Expr bool_imm(bool v) { return IntImm::make(DType::kBool, v); }
Expr zero(Type t) { return int_like(t, 0); }

Expr add(Expr a, Expr b) { return binary(BinaryOp::kAdd, std::move(a), std::move(b)); }
Expr sub(Expr a, Expr b) { return binary(BinaryOp::kSub, std::move(a), std::move(b)); }
Expr mul(Expr a, Expr b) { return binary(BinaryOp::kMul, std::move(a), std::move(b)); }
Expr div(Expr a, Expr b) { return binary(BinaryOp::kDiv, std::move(a), std::move(b)); }
Expr mod(Expr a, Expr b) { return binary(BinaryOp::kMod, std::move(a), std::move(b)); }
Expr floor_div(Expr a, Expr b) { return binary(BinaryOp::kFloorDiv, std::move(a), std::move(b)); }
Expr floor_mod(Expr a, Expr b) { return binary(BinaryOp::kFloorMod, std::move(a), std::move(b)); }
Expr min(Expr a, Expr b) { return binary(BinaryOp::kMin, std::move(a), std::move(b)); }
Expr max(Expr a, Expr b) { return binary(BinaryOp::kMax, std::move(a), std::move(b)); }
Expr eq(Expr a, Expr b) { return binary(BinaryOp::kEq, std::move(a), std::move(b)); }
Expr ne(Expr a, Expr b) { return binary(BinaryOp::kNe, std::move(a), std::move(b)); }
Expr lt(Expr a, Expr b) { return binary(BinaryOp::kLt, std::move(a), std::move(b)); }
Expr le(Expr a, Expr b) { return binary(BinaryOp::kLe, std::move(a), std::move(b)); }
Expr gt(Expr a, Expr b) { return lt(std::move(b), std::move(a)); }
Expr ge(Expr a, Expr b) { return le(std::move(b), std::move(a)); }

Expr logical_and(Expr a, Expr b) {
  TESSERA_CHECK(a.dtype() == DType::kBool, "logical and of {}", to_text(a.type()));
  return binary(BinaryOp::kAnd, std::move(a), std::move(b));
}

Expr logical_or(Expr a, Expr b) {
  TESSERA_CHECK(a.dtype() == DType::kBool, "logical or of {}", to_text(a.type()));
  return binary(BinaryOp::kOr, std::move(a), std::move(b));
}

Expr logical_not(Expr a) {
  TESSERA_CHECK(a.dtype() == DType::kBool, "logical not of {}", to_text(a.type()));
  return call(Intrinsic::kNot, {std::move(a)});
}

Expr select(Expr cond, Expr on_true, Expr on_false) {
  const ExprNode* c = constant(cond);
  Expr whole = Select::make(std::move(cond), on_true, on_false);
  if (!c) return whole;
  return static_cast<const IntImm*>(c)->value ? on_true : on_false;
}

Expr cast(DType to, Expr v) {
  if (v.dtype() == to) return v;
  const ExprNode* c = constant(v);
  return c ? Broadcast::make(fold_cast(to, c), v.lanes()) : Cast::make(to, std::move(v));
}

Expr call(Intrinsic fn, std::vector<Expr> args) {
  Expr whole = Call::make(fn, std::move(args));
  Expr folded;
  return fold_call(*whole.as<Call>(), &folded) ? folded : whole;
}

std::optional<std::int64_t> as_const_int(const Expr& e) {
  const ExprNode* c = e ? constant(e) : nullptr;
  if (!c || c->kind != ExprKind::kIntImm) return std::nullopt;
  return static_cast<const IntImm*>(c)->value;
}

bool is_const_int(const Expr& e, std::int64_t v) { return as_const_int(e) == v; }

std::optional<double> as_const_float(const Expr& e) {
  const ExprNode* c = e ? constant(e) : nullptr;
  if (!c || c->kind != ExprKind::kFloatImm) return std::nullopt;
  return static_cast<const FloatImm*>(c)->value;
}

Expr substitute(const Expr& e, const VarMap& map) { return Substitute(map)(e); }
Stmt substitute(const Stmt& s, const VarMap& map) { return Substitute(map)(s); }

Expr substitute(const Expr& e, const Expr& var, const Expr& value) {
  return substitute(e, VarMap{{var.get(), value}});
}

Stmt substitute(const Stmt& s, const Expr& var, const Expr& value) {
  return substitute(s, VarMap{{var.get(), value}});
}

}  // namespace tessera::ir
