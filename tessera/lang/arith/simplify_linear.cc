#include <algorithm>
#include <optional>

#include "tessera/lang/arith/simplifier.h"
#include "tessera/lang/ir/build.h"

namespace tessera::arith {

using ir::Binary;
using ir::BinaryOp;
using ir::Expr;

namespace {

void erase_terms(std::size_t i, std::size_t j, Linear* sum) {
  const auto first = static_cast<std::ptrdiff_t>(std::min(i, j));
  const auto second = static_cast<std::ptrdiff_t>(std::max(i, j));
  sum->terms.erase(sum->terms.begin() + second);
  if (first != second) sum->terms.erase(sum->terms.begin() + first);
}

// The difference of the sums is a multiple of n wherever the atoms are integers.
bool is_congruent(const Linear& x, const Linear& y, std::int64_t n) {
  const Linear d = difference(x, y);
  return !d.overflow && d.constant % n == 0 &&
         std::all_of(d.terms.begin(), d.terms.end(),
                     [n](const Term& t) { return t.coefficient % n == 0; });
}

// The x with e == x // n and x % n == y % n. Nested divisions are merged: e may be z // (a*n) and y
// z // a. Coefficients of y may be reduced modulo n, those of x are not.
std::optional<Linear> dividend_of(const Expr& e, const Expr& y, std::int64_t n) {
  const auto outer = match_const_op(e, BinaryOp::kFloorDiv);
  if (!outer) return std::nullopt;
  const Linear value = to_linear(y);
  if (outer->divisor == n) {
    const Linear x = to_linear(*outer->value);
    if (is_congruent(x, value, n)) return x;
  }
  const auto inner = match_const_op(y, BinaryOp::kFloorDiv);
  std::int64_t product = 0;
  const bool merged = inner && !__builtin_mul_overflow(inner->divisor, n, &product) &&
                      product == outer->divisor && ir::equal(*inner->value, *outer->value);
  return merged ? std::optional<Linear>(value) : std::nullopt;
}

bool is_product(std::int64_t value, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) && product == value;
}

bool is_division(const Expr& e) {
  const auto* b = e.as<Binary>();
  return b && (b->op == BinaryOp::kFloorDiv || b->op == BinaryOp::kFloorMod);
}

}  // namespace

void Simplifier::linearize(const Expr& e, std::int64_t scale, Linear* out) {
  const auto* b = is_index(e) ? e.as<Binary>() : nullptr;
  if (b && (b->op == BinaryOp::kAdd || b->op == BinaryOp::kSub)) {
    linearize(b->a, scale, out);
    Linear right;
    linearize(b->b, 1, &right);
    std::int64_t signed_scale = scale;
    if (b->op == BinaryOp::kSub && __builtin_sub_overflow(std::int64_t{0}, scale, &signed_scale))
      out->overflow = true;
    return out->add(right, signed_scale);
  }
  if (b && b->op == BinaryOp::kMul) {
    Linear x;
    Linear y;
    linearize(b->a, 1, &x);
    linearize(b->b, 1, &y);
    if (y.is_constant() || x.is_constant()) {
      const std::int64_t factor = y.is_constant() ? y.constant : x.constant;
      std::int64_t product = 0;
      if (__builtin_mul_overflow(scale, factor, &product)) out->overflow = true;
      return out->add(y.is_constant() ? x : y, product);
    }
    out->overflow = out->overflow || x.overflow || y.overflow;
    if (out->overflow) return;
    return out->add_term(keep_handle(e, Binary::make(BinaryOp::kMul, to_expr(x), to_expr(y))),
                         scale);
  }
  flatten(visit(e), scale, out);
}

Expr Simplifier::visit_sum(const Expr& e) {
  Linear sum;
  linearize(e, 1, &sum);
  while (!sum.overflow && join_quotients(&sum)) {
  }
  return sum.overflow ? e : keep_handle(e, to_expr(sum));
}

bool Simplifier::join_quotients(Linear* sum) const {
  if (sum->terms.size() < 2) return false;
  for (std::size_t i = 0; i < sum->terms.size(); ++i) {
    if (!is_division(sum->terms[i].atom)) continue;
    for (std::size_t j = 0; j < sum->terms.size(); ++j) {
      if (i != j && is_division(sum->terms[j].atom) && join_pair(i, j, sum)) return true;
    }
    if (join_with_value(i, sum)) return true;
  }
  return false;
}

// (y//n)*n + y%n = y, and ((y//n)%m)*n + y%n = y%(n*m); i is the quotient part and j the remainder.
bool Simplifier::join_pair(std::size_t i, std::size_t j, Linear* sum) const {
  const Term high = sum->terms[i];
  const Term low = sum->terms[j];
  const auto mod = match_const_op(low.atom, BinaryOp::kFloorMod);
  if (!mod || !is_product(high.coefficient, low.coefficient, mod->divisor)) return false;
  if (const auto value = dividend_of(high.atom, *mod->value, mod->divisor)) {
    erase_terms(i, j, sum);
    sum->add(*value, low.coefficient);
    return true;
  }
  const auto high_mod = match_const_op(high.atom, BinaryOp::kFloorMod);
  if (!high_mod) return false;
  const auto value = dividend_of(*high_mod->value, *mod->value, mod->divisor);
  std::int64_t period = 0;
  if (!value || __builtin_mul_overflow(high_mod->divisor, mod->divisor, &period)) return false;
  erase_terms(i, j, sum);
  sum->add(modulo(*value, period), low.coefficient);
  return true;
}

// x - (x//n)*n = x%n, and x - x%n = (x//n)*n, where the other terms of the sum hold x.
bool Simplifier::join_with_value(std::size_t i, Linear* sum) const {
  const Term term = sum->terms[i];
  const auto div = match_const_op(term.atom, BinaryOp::kFloorDiv);
  const auto mod = match_const_op(term.atom, BinaryOp::kFloorMod);
  if (!div && !mod) return false;
  const std::int64_t n = div ? div->divisor : mod->divisor;
  if (div && term.coefficient % n != 0) return false;
  const std::int64_t scale = -(div ? term.coefficient / n : term.coefficient);
  const Linear value = to_linear(div ? *div->value : *mod->value);
  for (const Term& t : value.terms) {
    if (!is_product(sum->coefficient_of(t.atom), t.coefficient, scale)) return false;
  }
  erase_terms(i, i, sum);
  sum->add(value, -scale);
  Linear joined;
  joined.add(div ? modulo(value, n) : divide(value, n), div ? 1 : n);
  sum->add(joined, scale);
  return true;
}

Expr Simplifier::visit_extremum(const Expr& e, const Binary& b) {
  Expr x = visit(b.a);
  Expr y = visit(b.b);
  if (x.kind() == ir::ExprKind::kIntImm && y.kind() != ir::ExprKind::kIntImm) std::swap(x, y);
  const bool is_min = b.op == BinaryOp::kMin;
  Linear gap = to_linear(x);
  flatten(y, -1, &gap);
  while (join_quotients(&gap)) {
  }
  if (may_wrap(gap)) return visit_generic(e, b);
  Linear back;
  back.add(gap, -1);
  if (context_.prove_non_positive(gap)) return is_min ? x : y;
  if (context_.prove_non_positive(back)) return is_min ? y : x;
  // min(min(x, c), d): one constant is enough.
  const auto* inner = x.as<Binary>();
  if (inner && inner->op == b.op) {
    if (Expr c = fold_constants(b.op, inner->b, y)) return Binary::make(b.op, inner->a, c);
    if (ir::equal(inner->a, y) || ir::equal(inner->b, y)) return x;
  }
  return x.same_as(b.a) && y.same_as(b.b) ? e : Binary::make(b.op, x, y);
}

}  // namespace tessera::arith
