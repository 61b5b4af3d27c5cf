#include <algorithm>
#include <limits>

#include "tessera/lang/arith/context.h"
#include "tessera/lang/ir/build.h"

namespace tessera::arith {

using ir::Binary;
using ir::BinaryOp;
using ir::Expr;

namespace {

using Bound = std::optional<std::int64_t>;

Bound add(Bound a, Bound b) {
  std::int64_t out = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &out)) return std::nullopt;
  return out;
}

Bound mul(Bound a, std::int64_t c) {
  std::int64_t out = 0;
  if (!a || __builtin_mul_overflow(*a, c, &out)) return std::nullopt;
  return out;
}

Interval scale(Interval x, std::int64_t c) {
  return c >= 0 ? Interval{mul(x.lo, c), mul(x.hi, c)} : Interval{mul(x.hi, c), mul(x.lo, c)};
}

Bound least(Bound a, Bound b) { return a && b ? Bound(std::min(*a, *b)) : std::nullopt; }
Bound greatest(Bound a, Bound b) { return a && b ? Bound(std::max(*a, *b)) : std::nullopt; }
// The tighter of two valid bounds.
Bound tighter_hi(Bound a, Bound b) { return a && b ? std::min(a, b) : (a ? a : b); }
Bound tighter_lo(Bound a, Bound b) { return a && b ? std::max(a, b) : (a ? a : b); }

Interval hull(Interval a, Interval b) { return {least(a.lo, b.lo), greatest(a.hi, b.hi)}; }
Interval meet(Interval a, Interval b) { return {tighter_lo(a.lo, b.lo), tighter_hi(a.hi, b.hi)}; }

Interval product(Interval a, Interval b) {
  if (!a.lo || !a.hi || !b.lo || !b.hi) {
    const bool non_negative = a.lo && b.lo && *a.lo >= 0 && *b.lo >= 0;
    return non_negative ? Interval{mul(a.lo, *b.lo), std::nullopt} : Interval{};
  }
  return hull(scale(a, *b.lo), scale(a, *b.hi));
}

// All values of the type; unbounded for i64 and u64.
Interval values_of(DType t) {
  if (t == DType::kBool) return {0, 1};
  if (!is_int(t) || size_bytes(t) == 8) return {};
  const int bits = 8 * size_bytes(t);
  const std::int64_t span = std::int64_t{1} << bits;
  return is_signed_int(t) ? Interval{-span / 2, span / 2 - 1} : Interval{0, span - 1};
}

// Bounds of a value computed modulo the type's width whose exact value is in x.
Interval wrapped(DType t, Interval x) {
  if (t == DType::kI64) return x;
  if (t == DType::kU64) return {};
  const Interval all = values_of(t);
  const bool fits = x.lo && x.hi && *x.lo >= *all.lo && *x.hi <= *all.hi;
  return fits ? x : all;
}

Interval floor_div_bounds(Interval x, std::int64_t c) {
  Interval out;
  if (x.lo) out.lo = floor_div(*x.lo, c);
  if (x.hi) out.hi = floor_div(*x.hi, c);
  return out;
}

Interval floor_mod_bounds(Interval x, std::int64_t c) {
  const Interval q = floor_div_bounds(x, c);
  if (!q.lo || q.lo != q.hi) return {0, c - 1};
  return {floor_mod(*x.lo, c), floor_mod(*x.hi, c)};
}

Interval trunc_div_bounds(Interval x, std::int64_t c) {
  Interval out;
  if (x.lo) out.lo = *x.lo / c;
  if (x.hi) out.hi = *x.hi / c;
  return out;
}

Interval trunc_mod_bounds(Interval x, std::int64_t c) {
  if (x.lo && *x.lo >= 0) return floor_mod_bounds(x, c);
  return {1 - c, x.hi && *x.hi <= 0 ? 0 : c - 1};
}

}  // namespace

Interval Context::bounds(const Expr& e) const {
  const DType t = e.dtype();
  if (e.lanes() != 1 || is_float(t)) return {};
  if (const auto* i = e.as<ir::IntImm>())
    return t == DType::kU64 ? Interval{} : Interval{i->value, i->value};
  if (e.kind() == ir::ExprKind::kVar) return meet(range(e.get()), values_of(t));
  if (!is_index(e)) return wrapped(t, bounds_of_atom(e));
  const auto* b = e.as<Binary>();
  if (b && (b->op == BinaryOp::kAdd || b->op == BinaryOp::kSub || b->op == BinaryOp::kMul)) {
    const Linear sum = to_linear(e);
    if (sum.overflow) return {};
    if (sum.terms.size() != 1 || sum.constant != 0 || sum.terms[0].coefficient != 1)
      return bounds(sum);
  }
  return bounds_of_atom(e);
}

Interval Context::bounds_of_atom(const Expr& e) const {
  switch (e.kind()) {
    case ir::ExprKind::kVar:
      return bounds(e);
    case ir::ExprKind::kBinary:
      return bounds_of_binary(*e.as<Binary>());
    case ir::ExprKind::kSelect: {
      const auto* s = e.as<ir::Select>();
      return hull(bounds(s->on_true), bounds(s->on_false));
    }
    case ir::ExprKind::kCast: {
      const Expr& value = e.as<ir::Cast>()->value;
      return is_float(value.dtype()) ? values_of(e.dtype()) : wrapped(e.dtype(), bounds(value));
    }
    case ir::ExprKind::kCall: {
      const auto* call = e.as<ir::Call>();
      if (call->fn != ir::Intrinsic::kAbs) return values_of(e.dtype());
      const Interval x = bounds(call->args[0]);
      const Interval both = hull(x, scale(x, -1));
      return {0, both.hi};
    }
    default:
      return values_of(e.dtype());
  }
}

Interval Context::bounds_of_binary(const Binary& b) const {
  if (b.type.dtype == DType::kBool) return {0, 1};
  const Interval x = bounds(b.a);
  const Interval y = bounds(b.b);
  const bool positive_constant = y.lo && y.lo == y.hi && *y.lo > 0;
  switch (b.op) {
    case BinaryOp::kAdd:
      return {add(x.lo, y.lo), add(x.hi, y.hi)};
    case BinaryOp::kSub:
      return {add(x.lo, mul(y.hi, -1)), add(x.hi, mul(y.lo, -1))};
    case BinaryOp::kMul:
      return product(x, y);
    case BinaryOp::kMin:
      return {least(x.lo, y.lo), tighter_hi(x.hi, y.hi)};
    case BinaryOp::kMax:
      return {tighter_lo(x.lo, y.lo), greatest(x.hi, y.hi)};
    case BinaryOp::kFloorDiv:
      return positive_constant ? floor_div_bounds(x, *y.lo) : Interval{};
    case BinaryOp::kFloorMod:
      return positive_constant ? floor_mod_bounds(x, *y.lo) : Interval{};
    case BinaryOp::kDiv:
      return positive_constant ? trunc_div_bounds(x, *y.lo) : Interval{};
    case BinaryOp::kMod:
      return positive_constant ? trunc_mod_bounds(x, *y.lo) : Interval{};
    case BinaryOp::kAnd:
      if (y.lo && *y.lo >= 0) return {0, y.hi};
      return x.lo && *x.lo >= 0 ? Interval{0, x.hi} : Interval{};
    default:
      return {};
  }
}

Interval Context::bounds_of_sum(const Linear& sum) const {
  Interval out{sum.constant, sum.constant};
  for (const Term& t : sum.terms) {
    const Interval x = scale(bounds(t.atom), t.coefficient);
    out = {add(out.lo, x.lo), add(out.hi, x.hi)};
    if (!out.lo && !out.hi) break;
  }
  return out;
}

// A min, max or select term is replaced by each of its sides: terms shared with the rest then
// cancel.
Interval Context::bounds(const Linear& sum, int depth) const {
  const Interval plain = bounds_of_sum(sum);
  if (depth == 0 || sum.terms.size() < 2) return plain;
  for (std::size_t i = 0; i < sum.terms.size(); ++i) {
    const auto& [atom, c] = sum.terms[i];
    const auto* b = atom.as<Binary>();
    const auto* s = atom.as<ir::Select>();
    const bool choice = b && (b->op == BinaryOp::kMin || b->op == BinaryOp::kMax);
    if (!choice && !s) continue;
    Linear left = sum;
    left.terms.erase(left.terms.begin() + static_cast<std::ptrdiff_t>(i));
    Linear right = left;
    flatten(s ? s->on_true : b->a, c, &left);
    flatten(s ? s->on_false : b->b, c, &right);
    if (left.overflow || right.overflow) return plain;
    const Interval x = bounds(left, depth - 1);
    const Interval y = bounds(right, depth - 1);
    Interval either = hull(x, y);
    // c*min(a, b) is the smaller of both sides for c > 0 and the larger for c < 0.
    if (choice && (b->op == BinaryOp::kMin) == (c > 0)) either.hi = tighter_hi(x.hi, y.hi);
    if (choice && (b->op == BinaryOp::kMax) == (c > 0)) either.lo = tighter_lo(x.lo, y.lo);
    return meet(plain, either);
  }
  return plain;
}

}  // namespace tessera::arith
