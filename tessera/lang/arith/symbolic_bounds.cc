#include "tessera/lang/arith/interval.h"
#include "tessera/lang/arith/simplifier.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::arith {

using ir::Binary;
using ir::BinaryOp;
using ir::Expr;

namespace {

struct LinearRange {
  Linear min, max;  // free of the inner variables
};

class SymbolicBounds {
 public:
  SymbolicBounds(const Ranges& inner, const Ranges& outer)
      : inner_(inner), all_(inner), simplify_(outer) {
    all_.insert(outer.begin(), outer.end());
  }

  std::optional<SymbolicInterval> operator()(const Expr& e) {
    const auto range = bound(Simplifier(all_)(e));
    if (!range || range->min.overflow || range->max.overflow) return std::nullopt;
    return SymbolicInterval{simplify_(to_expr(range->min)), simplify_(to_expr(range->max))};
  }

 private:
  std::optional<LinearRange> bound(const Expr& e) {
    LinearRange out;
    const Linear sum = to_linear(e);
    if (sum.overflow) return std::nullopt;
    out.min.add_constant(sum.constant);
    out.max.add_constant(sum.constant);
    for (const auto& [atom, c] : sum.terms) {
      if (!uses_inner(atom)) {
        out.min.add_term(atom, c);
        out.max.add_term(atom, c);
        continue;
      }
      const auto range = bound_atom(atom);
      if (!range) return std::nullopt;
      out.min.add(c > 0 ? range->min : range->max, c);
      out.max.add(c > 0 ? range->max : range->min, c);
    }
    return out;
  }

  std::optional<LinearRange> bound_atom(const Expr& e) {
    std::optional<LinearRange> out;
    if (const auto div = match_const_op(e, BinaryOp::kFloorDiv)) {
      out = bound_quotient(*div);
    } else if (const auto mod = match_const_op(e, BinaryOp::kFloorMod)) {
      out = bound_remainder(*mod);
    } else if (const auto* b = e.as<Binary>();
               b && (b->op == BinaryOp::kMin || b->op == BinaryOp::kMax)) {
      out = bound_both(b->a, b->b, b->op, b->op);
    } else if (const auto* s = e.as<ir::Select>()) {
      out = bound_both(s->on_true, s->on_false, BinaryOp::kMin, BinaryOp::kMax);
    }
    if (out) return out;
    const Interval constant = const_bounds(e, all_);
    if (!constant.lo || !constant.hi) return std::nullopt;
    LinearRange range;
    range.min.add_constant(*constant.lo);
    range.max.add_constant(*constant.hi);
    return range;
  }

  // Prefers a span that is constant, at the price of one quotient too many where the start is not
  // aligned.
  std::optional<LinearRange> bound_quotient(const ConstOperand& div) {
    auto x = bound(*div.value);
    if (!x) return std::nullopt;
    const std::int64_t n = div.divisor;
    LinearRange out{simplify_.divide(x->min, n), simplify_.divide(x->max, n)};
    const Linear span = difference(x->max, x->min);
    if (!span.is_constant() || difference(out.max, out.min).is_constant()) return out;
    const Interval offset = simplify_.context().bounds(simplify_.modulo(x->min, n));
    out.max = out.min;
    out.max.add_constant(floor_div(offset.hi.value_or(n - 1) + span.constant, n));
    return out;
  }

  // The remainders are contiguous when the value cannot cross a multiple of the divisor.
  std::optional<LinearRange> bound_remainder(const ConstOperand& mod) {
    const auto x = bound(*mod.value);
    if (!x) return std::nullopt;
    const Linear span = difference(x->max, x->min);
    LinearRange out;
    out.min = simplify_.modulo(x->min, mod.divisor);
    const Interval offset = simplify_.context().bounds(out.min);
    if (!span.is_constant() || !offset.hi || *offset.hi + span.constant >= mod.divisor)
      return std::nullopt;
    out.max = out.min;
    out.max.add_constant(span.constant);
    return out;
  }

  std::optional<LinearRange> bound_both(const Expr& a, const Expr& b, BinaryOp min_op,
                                        BinaryOp max_op) {
    const auto x = bound(a);
    const auto y = bound(b);
    if (!x || !y) return std::nullopt;
    const auto combine = [this](BinaryOp op, const Linear& p, const Linear& q) {
      return to_linear(simplify_(Binary::make(op, to_expr(p), to_expr(q))));
    };
    return LinearRange{combine(min_op, x->min, y->min), combine(max_op, x->max, y->max)};
  }

  bool uses_inner(const Expr& e) const {
    bool found = false;
    ir::for_each_expr(e, [&](const Expr& x) {
      found = found || (x.kind() == ir::ExprKind::kVar && inner_.count(x.get()) != 0);
    });
    return found;
  }

  const Ranges& inner_;
  Ranges all_;
  Simplifier simplify_;
};

}  // namespace

std::optional<SymbolicInterval> symbolic_bounds(const Expr& e, const Ranges& inner,
                                                const Ranges& outer) {
  if (!is_index(e)) return std::nullopt;
  return SymbolicBounds(inner, outer)(e);
}

}  // namespace tessera::arith
