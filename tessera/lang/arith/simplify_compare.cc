#include <numeric>

#include "tessera/lang/arith/simplifier.h"
#include "tessera/lang/ir/build.h"

namespace tessera::arith {

using ir::Binary;
using ir::BinaryOp;
using ir::Expr;

namespace {

Linear negated(const Linear& sum, std::int64_t offset) {
  Linear out;
  out.add(sum, -1);
  out.add_constant(offset);
  return out;
}

Linear shifted(Linear sum, std::int64_t offset) {
  sum.add_constant(offset);
  return sum;
}

// gap = left - right with only positive coefficients on both sides and no constants.
void split_signs(const Linear& gap, Linear* left, Linear* right) {
  for (const Term& t : gap.terms) {
    if (t.coefficient > 0) {
      left->add_term(t.atom, t.coefficient);
    } else {
      right->add_term(t.atom, -t.coefficient);
    }
  }
}

// gap < 0 with the constant on the side that keeps it readable: 3 <= i, i < 8, i < j + 2.
Expr less_than_zero(const Linear& gap) {
  Linear left;
  Linear right;
  split_signs(gap, &left, &right);
  if (left.terms.empty())
    return Binary::make(BinaryOp::kLe, ir::int_imm(gap.constant + 1), to_expr(right));
  right.add_constant(gap.constant, -1);
  return Binary::make(BinaryOp::kLt, to_expr(left), to_expr(right));
}

Expr equal_to_zero(BinaryOp op, const Linear& gap) {
  Linear left;
  Linear right;
  split_signs(gap, &left, &right);
  if (left.terms.empty()) {
    right.add_constant(0);
    return Binary::make(op, to_expr(right), ir::int_imm(gap.constant));
  }
  right.add_constant(gap.constant, -1);
  return Binary::make(op, to_expr(left), to_expr(right));
}

}  // namespace

std::optional<bool> Simplifier::decide_less(const Linear& gap) const {
  if (context_.prove_non_positive(shifted(gap, 1))) return true;
  if (context_.prove_non_positive(negated(gap, 0))) return false;
  return std::nullopt;
}

std::optional<bool> Simplifier::decide_equal(const Linear& gap) const {
  const bool at_most = context_.prove_non_positive(gap);
  const bool at_least = context_.prove_non_positive(negated(gap, 0));
  if (at_most && at_least) return true;
  if (context_.prove_non_positive(shifted(gap, 1)) || context_.prove_non_positive(negated(gap, 1)))
    return false;
  std::int64_t common = 0;
  for (const Term& t : gap.terms) common = std::gcd(common, t.coefficient);
  if (common > 1 && gap.constant % common != 0) return false;
  return std::nullopt;
}

Expr Simplifier::visit_comparison(const Expr& e, const Binary& b) {
  Linear gap;
  linearize(b.a, 1, &gap);
  linearize(b.b, -1, &gap);
  const bool ordered = b.op == BinaryOp::kLt || b.op == BinaryOp::kLe;
  if (b.op == BinaryOp::kLe) gap.add_constant(-1);  // a <= b is a - 1 < b
  while (!gap.overflow && join_quotients(&gap)) {
  }
  if (may_wrap(gap)) return visit_generic(e, b);
  constexpr std::int64_t kLimit = std::int64_t{1} << 62;
  if (gap.overflow || gap.constant > kLimit || gap.constant < -kLimit) return e;
  if (ordered) {
    // factor*scaled + remainder < 0 is scaled < 0, as the remainder is below one factor.
    while (const auto f = factor_out(gap, 0, context_)) gap = f->scaled;
    if (const auto value = decide_less(gap)) return ir::bool_imm(*value);
  } else {
    if (const auto value = decide_equal(gap))
      return ir::bool_imm((b.op == BinaryOp::kEq) == *value);
    std::int64_t common = 0;
    for (const Term& t : gap.terms) common = std::gcd(common, t.coefficient);
    for (Term& t : gap.terms) t.coefficient /= common;
    gap.constant /= common;
  }
  const Expr out = ordered ? less_than_zero(gap) : equal_to_zero(b.op, gap);
  if (const auto value = context_.known(out)) return ir::bool_imm(*value);
  if (!ordered) {
    const Expr opposite = equal_to_zero(b.op == BinaryOp::kEq ? BinaryOp::kNe : BinaryOp::kEq, gap);
    if (const auto value = context_.known(opposite)) return ir::bool_imm(!*value);
  }
  return keep_handle(e, out);
}

Expr Simplifier::compare_by_bounds(const Expr& e, BinaryOp op, const Expr& a, const Expr& b) const {
  const Interval x = context_.bounds(a);
  const Interval y = context_.bounds(b);
  const bool below = x.hi && y.lo && *x.hi < *y.lo;
  const bool above = x.lo && y.hi && *x.lo > *y.hi;
  const bool not_above = x.hi && y.lo && *x.hi <= *y.lo;
  const bool not_below = x.lo && y.hi && *x.lo >= *y.hi;
  const bool same = ir::equal(a, b);
  switch (op) {
    case BinaryOp::kLt:
      if (below) return ir::bool_imm(true);
      return not_below || same ? ir::bool_imm(false) : e;
    case BinaryOp::kLe:
      if (not_above || same) return ir::bool_imm(true);
      return above ? ir::bool_imm(false) : e;
    case BinaryOp::kEq:
    case BinaryOp::kNe:
      if (same) return ir::bool_imm(op == BinaryOp::kEq);
      return below || above ? ir::bool_imm(op == BinaryOp::kNe) : e;
    default:
      return e;
  }
}

}  // namespace tessera::arith
