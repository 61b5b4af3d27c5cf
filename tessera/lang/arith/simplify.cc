#include "tessera/lang/arith/simplify.h"

#include <algorithm>
#include <bit>

#include "tessera/lang/arith/simplifier.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/fold.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::arith {

using ir::Binary;
using ir::BinaryOp;
using ir::Expr;
using ir::ExprKind;

namespace {

// Rules feed each other; in practice the second round already finds nothing.
constexpr int kMaxRounds = 6;

bool is_float_imm(const Expr& e, double value) {
  const auto v = ir::as_const_float(e);
  return v && std::bit_cast<std::uint64_t>(*v) == std::bit_cast<std::uint64_t>(value);
}

// x op constant == x for every float x, signed zeros included.
bool is_float_identity(BinaryOp op, const Expr& constant) {
  switch (op) {
    case BinaryOp::kAdd:
      return is_float_imm(constant, -0.0);
    case BinaryOp::kSub:
      return is_float_imm(constant, 0.0);
    case BinaryOp::kMul:
    case BinaryOp::kDiv:
      return is_float_imm(constant, 1.0);
    default:
      return false;
  }
}

bool is_int_identity(BinaryOp op, const Expr& constant) {
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kShl:
    case BinaryOp::kShr:
    case BinaryOp::kXor:
      return ir::is_const_int(constant, 0);
    case BinaryOp::kMul:
    case BinaryOp::kDiv:
    case BinaryOp::kFloorDiv:
      return ir::is_const_int(constant, 1);
    default:
      return false;
  }
}

bool commutes(BinaryOp op) {
  return op == BinaryOp::kAdd || op == BinaryOp::kMul || op == BinaryOp::kXor;
}

// The operand that a binary operation of any type and lanes passes through, or null.
Expr pass_through(BinaryOp op, const Expr& a, const Expr& b) {
  const bool floats = is_float(a.dtype());
  const auto identity = [&](const Expr& c) {
    return floats ? is_float_identity(op, c) : is_int_identity(op, c);
  };
  if (identity(b)) return a;
  if (commutes(op) && identity(a)) return b;
  if (!floats && op == BinaryOp::kMul && (ir::is_const_int(a, 0) || ir::is_const_int(b, 0)))
    return ir::zero(a.type());
  const bool idempotent = op == BinaryOp::kMin || op == BinaryOp::kMax ||
                          (!floats && (op == BinaryOp::kAnd || op == BinaryOp::kOr));
  return idempotent && ir::equal(a, b) ? a : Expr();
}

}  // namespace

Expr fold_constants(BinaryOp op, const Expr& a, const Expr& b) {
  const DType t = a.dtype();
  if (const auto* x = a.as<ir::IntImm>(), *y = b.as<ir::IntImm>(); x && y) {
    return ir::IntImm::make(ir::is_comparison(op) ? DType::kBool : t,
                            ir::fold_int(op, t, x->value, y->value));
  }
  if (const auto* x = a.as<ir::FloatImm>(), *y = b.as<ir::FloatImm>(); x && y) {
    if (ir::is_comparison(op)) return ir::bool_imm(ir::fold_float_compare(op, x->value, y->value));
    return ir::FloatImm::make(t, ir::fold_float(op, t, x->value, y->value));
  }
  return Expr();
}

Expr Simplifier::operator()(const Expr& e) {
  Expr now = e;
  for (int round = 0; round < kMaxRounds; ++round) {
    Expr next = visit(now);
    if (next.same_as(now)) break;
    now = std::move(next);
  }
  return now;
}

Expr Simplifier::visit(const Expr& e) {
  if (e.kind() == ExprKind::kIntImm || e.kind() == ExprKind::kFloatImm) return e;
  if (e.kind() == ExprKind::kVar) return visit_var(e);
  if (e.get()->refs.load(std::memory_order_relaxed) <= 1) return visit_node(e);
  if (const auto found = memo_.find(e.get()); found != memo_.end()) return found->second.second;
  Expr out = visit_node(e);
  memo_.emplace(e.get(), std::pair(e, out));
  return out;
}

Expr Simplifier::visit_var(const Expr& e) const {
  const Interval range = context_.range(e.get());
  return range.lo && range.lo == range.hi ? ir::IntImm::make(e.dtype(), *range.lo) : e;
}

Expr Simplifier::visit_node(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::kBinary:
      return visit_binary(e, *e.as<Binary>());
    case ExprKind::kSelect:
      return visit_select(e, *e.as<ir::Select>());
    case ExprKind::kCast:
      return visit_cast(e, *e.as<ir::Cast>());
    case ExprKind::kLoad:
      return visit_load(e, *e.as<ir::Load>());
    case ExprKind::kCall:
      return visit_call(e, *e.as<ir::Call>());
    case ExprKind::kRamp:
      return visit_ramp(e, *e.as<ir::Ramp>());
    case ExprKind::kBroadcast: {
      const Expr& old = e.as<ir::Broadcast>()->value;
      const Expr value = visit(old);
      return value.same_as(old) ? e : ir::Broadcast::make(value, e.lanes());
    }
    case ExprKind::kShuffle: {
      const auto* shuffle = e.as<ir::Shuffle>();
      const Expr value = visit(shuffle->value);
      return value.same_as(shuffle->value) ? e : ir::Shuffle::make(value, shuffle->picks);
    }
    default:
      return e;
  }
}

Expr Simplifier::visit_binary(const Expr& e, const Binary& b) {
  if (b.a.lanes() != 1) return visit_vector(e, b);
  if (is_index(b.a)) return visit_index(e, b);
  const bool junction = b.op == BinaryOp::kAnd || b.op == BinaryOp::kOr;
  if (junction && b.type.dtype == DType::kBool) return visit_junction(e, b);
  return visit_generic(e, b);
}

Expr Simplifier::visit_index(const Expr& e, const Binary& b) {
  switch (b.op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMul:
      return visit_sum(e);
    case BinaryOp::kDiv:
    case BinaryOp::kMod:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      return visit_division(e, b);
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return visit_extremum(e, b);
    default:
      return ir::is_comparison(b.op) ? visit_comparison(e, b) : visit_generic(e, b);
  }
}

bool reads_memory(const Expr& e) {
  bool reads = false;
  ir::for_each_expr(e, [&](const Expr& x) { reads = reads || x.as<ir::Load>(); });
  return reads;
}

bool Simplifier::may_wrap(const Linear& sum) const {
  return std::any_of(sum.terms.begin(), sum.terms.end(), [&](const Term& t) {
    if (!reads_memory(t.atom)) return false;
    const Interval range = context_.bounds(t.atom);
    return !range.lo || !range.hi;
  });
}

Expr Simplifier::visit_generic(const Expr& e, const Binary& b) {
  const Expr x = visit(b.a);
  const Expr y = visit(b.b);
  if (Expr folded = fold_constants(b.op, x, y)) return folded;
  if (Expr same = pass_through(b.op, x, y)) return same;
  const Expr out = x.same_as(b.a) && y.same_as(b.b) ? e : Binary::make(b.op, x, y);
  if (!ir::is_comparison(b.op)) return out;
  if (const auto value = context_.known(out)) return ir::bool_imm(*value);
  return is_int(x.dtype()) ? compare_by_bounds(out, b.op, x, y) : out;
}

Expr Simplifier::visit_select(const Expr& e, const ir::Select& s) {
  const Expr cond = visit(s.cond);
  if (const auto value = ir::as_const_int(cond)) return visit(*value ? s.on_true : s.on_false);
  Expr on_true;
  Expr on_false;
  {
    Scope scope(this);
    scope.assume(cond, true);
    on_true = visit(s.on_true);
  }
  {
    Scope scope(this);
    scope.assume(cond, false);
    on_false = visit(s.on_false);
  }
  if (ir::equal(on_true, on_false)) return on_true;
  if (s.type == ir::Type{DType::kBool, 1} && ir::is_const_int(on_true, 1) &&
      ir::is_const_int(on_false, 0))
    return cond;
  if (cond.same_as(s.cond) && on_true.same_as(s.on_true) && on_false.same_as(s.on_false)) return e;
  return ir::Select::make(cond, on_true, on_false);
}

Expr Simplifier::visit_cast(const Expr& e, const ir::Cast& c) {
  const Expr value = visit(c.value);
  if (value.dtype() == c.type.dtype) return value;
  if (ir::as_const_int(value) || ir::as_const_float(value)) return ir::cast(c.type.dtype, value);
  // A value that fits the narrower type survives the way there and back.
  if (const auto* inner = value.as<ir::Cast>(); inner && is_index(e) && is_index(inner->value)) {
    const Interval wide = context_.bounds(inner->value);
    const auto fits = [&](std::optional<std::int64_t> v) {
      return v && wrap_int(value.dtype(), *v) == *v;
    };
    if (is_int(value.dtype()) && fits(wide.lo) && fits(wide.hi)) return inner->value;
  }
  return value.same_as(c.value) ? e : ir::Cast::make(c.type.dtype, value);
}

Expr Simplifier::visit_load(const Expr& e, const ir::Load& load) {
  std::vector<Expr> indices;
  return visit_all(load.indices, &indices) ? ir::Load::make(load.buffer, std::move(indices)) : e;
}

Expr Simplifier::visit_call(const Expr& e, const ir::Call& call) {
  if (call.fn == ir::Intrinsic::kNot && call.type == ir::Type{DType::kBool, 1})
    return visit_not(e, call);
  if (call.fn == ir::Intrinsic::kBitcast) {
    const Expr value = visit(call.args[0]);
    return value.same_as(call.args[0]) ? e : ir::Call::make_bitcast(call.type.dtype, value);
  }
  std::vector<Expr> args;
  if (visit_all(call.args, &args)) return ir::call(call.fn, std::move(args));
  Expr folded;
  return ir::fold_call(call, &folded) ? folded : e;
}

bool Simplifier::visit_all(const std::vector<Expr>& in, std::vector<Expr>* out) {
  bool changed = false;
  out->reserve(in.size());
  for (const Expr& x : in) {
    out->push_back(visit(x));
    changed = changed || !out->back().same_as(x);
  }
  return changed;
}

Expr simplify(const Expr& e, const Ranges& ranges) { return Simplifier(ranges)(e); }

bool can_prove(const Expr& cond, const Ranges& ranges) {
  const auto value = ir::as_const_int(simplify(cond, ranges));
  return value && *value != 0;
}

}  // namespace tessera::arith
