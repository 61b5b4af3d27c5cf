#include "tessera/lang/arith/simplifier.h"
#include "tessera/lang/ir/build.h"

namespace tessera::arith {

using ir::Binary;
using ir::BinaryOp;
using ir::Expr;

namespace {

// base + stride*lane in every lane: a Ramp, or a Broadcast of a scalar with stride 0.
struct Progression {
  Expr base;
  std::int64_t stride = 0;
};

std::optional<Progression> as_progression(const Expr& e) {
  if (const auto* ramp = e.as<ir::Ramp>()) return Progression{ramp->base, ramp->stride};
  const auto* broadcast = e.as<ir::Broadcast>();
  if (broadcast && is_index(broadcast->value)) return Progression{broadcast->value, 0};
  return std::nullopt;
}

Expr to_vector(const Expr& base, std::int64_t stride, int lanes) {
  return stride == 0 ? ir::Broadcast::make(base, lanes) : ir::Ramp::make(base, stride, lanes);
}

Linear at_lane(const Linear& base, std::int64_t stride, int lane) {
  Linear out = base;
  out.add_constant(stride, lane);
  return out;
}

}  // namespace

Expr Simplifier::visit_ramp(const Expr& e, const ir::Ramp& ramp) {
  const Expr base = visit(ramp.base);
  if (ramp.stride == 0) return ir::Broadcast::make(base, e.lanes());
  return base.same_as(ramp.base) ? e : ir::Ramp::make(base, ramp.stride, e.lanes());
}

Expr Simplifier::visit_vector(const Expr& e, const Binary& b) {
  const Expr x = visit(b.a);
  const Expr y = visit(b.b);
  const auto* bx = x.as<ir::Broadcast>();
  const auto* by = y.as<ir::Broadcast>();
  if (bx && by && bx->value.type() == by->value.type()) {
    return ir::Broadcast::make(visit(Binary::make(b.op, bx->value, by->value)), e.lanes());
  }
  if (x.dtype() == DType::kI64) {
    if (Expr out = combine_ramps(b.op, x, y)) return out;
  }
  if (e.dtype() == DType::kBool && (b.op == BinaryOp::kAnd || b.op == BinaryOp::kOr)) {
    const bool conjunction = b.op == BinaryOp::kAnd;
    if (const auto c = ir::as_const_int(x)) return (*c != 0) == conjunction ? y : x;
    if (const auto c = ir::as_const_int(y)) return (*c != 0) == conjunction ? x : y;
  }
  return x.same_as(b.a) && y.same_as(b.b) ? e : Binary::make(b.op, x, y);
}

Expr Simplifier::combine_ramps(BinaryOp op, const Expr& a, const Expr& b) {
  const auto x = as_progression(a);
  const auto y = as_progression(b);
  if (!x || !y) return Expr();
  const int lanes = a.lanes();
  if (op == BinaryOp::kAdd || op == BinaryOp::kSub) {
    const std::int64_t stride =
        op == BinaryOp::kAdd ? x->stride + y->stride : x->stride - y->stride;
    return to_vector(visit(Binary::make(op, x->base, y->base)), stride, lanes);
  }
  const auto constant = [](const Progression& p) {
    return p.stride == 0 ? ir::as_const_int(p.base) : std::nullopt;
  };
  const auto cx = constant(*x);
  const auto cy = constant(*y);
  if (op == BinaryOp::kMul && (cx || cy)) {
    std::int64_t stride = 0;
    const std::int64_t factor = cy.value_or(cx.value_or(0));
    if (__builtin_mul_overflow(factor, cy ? x->stride : y->stride, &stride)) return Expr();
    return to_vector(visit(Binary::make(op, x->base, y->base)), stride, lanes);
  }
  const bool division = op == BinaryOp::kFloorDiv || op == BinaryOp::kFloorMod;
  const std::int64_t divisor = cy.value_or(0);
  if (const auto* ramp = a.as<ir::Ramp>(); division && ramp && divisor > 0)
    return divide_ramp(op, *ramp, divisor);
  const bool extremum = op == BinaryOp::kMin || op == BinaryOp::kMax;
  return ir::is_comparison(op) || extremum ? compare_ramps(op, a, b) : Expr();
}

Expr Simplifier::divide_ramp(BinaryOp op, const ir::Ramp& ramp, std::int64_t n) {
  const int lanes = ramp.type.lanes;
  const bool quotient = op == BinaryOp::kFloorDiv;
  const Linear base = to_linear(ramp.base);
  const Linear first = divide(base, n);
  const Linear moved = difference(divide(at_lane(base, ramp.stride, lanes - 1), n), first);
  if (ramp.stride % n == 0) {
    return quotient ? to_vector(to_expr(first), ramp.stride / n, lanes)
                    : ir::Broadcast::make(to_expr(modulo(base, n)), lanes);
  }
  if (!moved.is_constant() || moved.constant != 0) return Expr();
  // All lanes lie between the first and the last, hence in the same period.
  return quotient ? ir::Broadcast::make(to_expr(first), lanes)
                  : ir::Ramp::make(to_expr(modulo(base, n)), ramp.stride, lanes);
}

// Decides when the first and the last lane agree: the gap is monotone in the lane.
Expr Simplifier::compare_ramps(BinaryOp op, const Expr& a, const Expr& b) {
  const auto x = as_progression(a);
  const auto y = as_progression(b);
  const int lanes = a.lanes();
  Linear first = to_linear(x->base);
  flatten(y->base, -1, &first);
  if (op == BinaryOp::kLe) first.add_constant(-1);
  const Linear last = at_lane(first, x->stride - y->stride, lanes - 1);
  const auto f = decide_less(first);
  const auto l = decide_less(last);
  const bool decided = f && l && *f == *l;
  if (!decided) return Expr();
  switch (op) {
    case BinaryOp::kMin:
      return *f ? a : b;
    case BinaryOp::kMax:
      return *f ? b : a;
    case BinaryOp::kLt:
    case BinaryOp::kLe:
      return ir::Broadcast::make(ir::bool_imm(*f), lanes);
    default:
      return *f ? ir::Broadcast::make(ir::bool_imm(op == BinaryOp::kNe), lanes) : Expr();
  }
}

}  // namespace tessera::arith
