#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>

#include "tessera/lang/arith/simplifier.h"
#include "tessera/lang/ir/build.h"

namespace tessera::arith {

using ir::Binary;
using ir::BinaryOp;
using ir::Expr;

namespace {

// The k with k*n <= sum < (k+1)*n everywhere, if there is one.
std::optional<std::int64_t> single_period(const Linear& sum, std::int64_t n,
                                          const Context& context) {
  const Interval b = context.bounds(sum);
  if (!b.lo || !b.hi) return std::nullopt;
  const std::int64_t k = floor_div(*b.lo, n);
  return k == floor_div(*b.hi, n) ? std::optional(k) : std::nullopt;
}

std::optional<Factored> factor_by(const Linear& sum, std::int64_t g, const Context& context) {
  Factored out;
  out.factor = g;
  for (const Term& t : sum.terms) {
    if (t.coefficient % g == 0) {
      out.scaled.add_term(t.atom, t.coefficient / g);
    } else {
      out.remainder.add_term(t.atom, t.coefficient);
    }
  }
  if (out.scaled.terms.empty()) return std::nullopt;
  out.scaled.constant = floor_div(sum.constant, g);
  out.remainder.constant = floor_mod(sum.constant, g);
  const auto k = single_period(out.remainder, g, context);
  if (!k) return std::nullopt;
  out.scaled.add_constant(*k);
  out.remainder.add_constant(*k, -g);
  return out;
}

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

// hi - lo of each term.
std::vector<std::int64_t> term_widths(const Linear& sum, const Context& context) {
  std::vector<std::int64_t> out;
  out.reserve(sum.terms.size());
  for (const Term& t : sum.terms) {
    const Interval b = context.bounds(t.atom);
    std::int64_t width = 0;
    const bool known = b.lo && b.hi && !__builtin_sub_overflow(*b.hi, *b.lo, &width) &&
                       !__builtin_mul_overflow(width, std::abs(t.coefficient), &width);
    out.push_back(known ? width : kUnbounded);
  }
  return out;
}

// Whether the terms that g does not divide span less than g: the cheap part of the test of
// factor_by.
bool remainder_is_narrow(const Linear& sum, const std::vector<std::int64_t>& widths,
                         std::int64_t g) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (sum.terms[i].coefficient % g == 0) continue;
    if (__builtin_add_overflow(total, widths[i], &total) || total >= g) return false;
  }
  return true;
}

// The quotient when the divisible terms are already split off and no factor can be.
Linear quotient_atom(const Simplifier& simplifier, const Linear& rest, std::int64_t n) {
  Linear out;
  if (rest.terms.size() == 1 && rest.terms[0].coefficient == 1) {
    const Expr& atom = rest.terms[0].atom;
    std::int64_t product = 0;
    const auto div = match_const_op(atom, BinaryOp::kFloorDiv);
    if (div && !__builtin_mul_overflow(div->divisor, n, &product)) {
      Linear value = to_linear(*div->value);
      value.add_constant(rest.constant, div->divisor);
      if (!value.overflow) return simplifier.divide(value, product);
    }
    const auto mod = match_const_op(atom, BinaryOp::kFloorMod);
    if (mod && rest.constant == 0 && mod->divisor % n == 0) {
      return simplifier.modulo(simplifier.divide(to_linear(*mod->value), n), mod->divisor / n);
    }
  }
  out.add_term(Binary::make(BinaryOp::kFloorDiv, to_expr(rest), ir::int_imm(n)), 1);
  return out;
}

// c*(x % m) is c*x modulo n when n divides c*m.
bool expand_remainders(std::int64_t n, Linear* sum) {
  for (std::size_t i = 0; i < sum->terms.size(); ++i) {
    const Term t = sum->terms[i];
    const auto mod = match_const_op(t.atom, BinaryOp::kFloorMod);
    std::int64_t product = 0;
    if (!mod || __builtin_mul_overflow(t.coefficient, mod->divisor, &product) || product % n != 0)
      continue;
    sum->terms.erase(sum->terms.begin() + static_cast<std::ptrdiff_t>(i));
    flatten(*mod->value, t.coefficient, sum);
    return true;
  }
  return false;
}

}  // namespace

std::optional<Factored> factor_out(const Linear& sum, std::int64_t n, const Context& context) {
  std::vector<std::int64_t> candidates;
  std::int64_t common = n;
  for (const Term& t : sum.terms) {
    candidates.push_back(std::gcd(t.coefficient, n));
    common = std::gcd(common, t.coefficient);
  }
  candidates.push_back(common);
  std::sort(candidates.begin(), candidates.end(), std::greater<>());
  if (candidates[0] <= 1) return std::nullopt;
  const std::vector<std::int64_t> widths = term_widths(sum, context);
  std::int64_t last = 0;
  for (const std::int64_t g : candidates) {
    if (g <= 1) break;
    if (std::exchange(last, g) == g || !remainder_is_narrow(sum, widths, g)) continue;
    if (auto out = factor_by(sum, g, context)) return out;
  }
  return std::nullopt;
}

Linear Simplifier::divide(const Linear& sum, std::int64_t n) const {
  if (n == 1) return sum;
  Linear out;
  Linear rest;
  for (const Term& t : sum.terms) {
    if (t.coefficient % n == 0) {
      out.add_term(t.atom, t.coefficient / n);
    } else {
      rest.add_term(t.atom, t.coefficient);
    }
  }
  out.overflow = sum.overflow;
  out.add_constant(floor_div(sum.constant, n));
  rest.add_constant(floor_mod(sum.constant, n));
  if (rest.terms.empty()) return out;
  if (const auto k = single_period(rest, n, context_)) {
    out.add_constant(*k);
  } else if (const auto f = factor_out(rest, n, context_)) {
    out.add(divide(f->scaled, n / f->factor));
  } else {
    out.add(quotient_atom(*this, rest, n));
  }
  return out;
}

Linear Simplifier::modulo(const Linear& sum, std::int64_t n) const {
  if (n == 1) return {};
  Linear rest;
  for (const Term& t : sum.terms) rest.add_term(t.atom, t.coefficient % n);
  rest.overflow = sum.overflow;
  rest.add_constant(floor_mod(sum.constant, n));
  if (rest.terms.empty()) return rest;
  if (const auto k = single_period(rest, n, context_)) {
    rest.add_constant(*k, -n);
    return rest;
  }
  if (expand_remainders(n, &rest)) return modulo(rest, n);
  Linear out;
  if (const auto f = factor_out(rest, n, context_)) {
    out.add(modulo(f->scaled, n / f->factor), f->factor);
    out.add(f->remainder);
  } else {
    out.add_term(Binary::make(BinaryOp::kFloorMod, to_expr(rest), ir::int_imm(n)), 1);
  }
  return out;
}

Expr Simplifier::visit_division(const Expr& e, const Binary& b) {
  const Expr x = visit(b.a);
  const Expr y = visit(b.b);
  if (Expr folded = fold_constants(b.op, x, y)) return folded;
  const auto same = [&] { return x.same_as(b.a) && y.same_as(b.b) ? e : Binary::make(b.op, x, y); };
  const auto* n = y.as<ir::IntImm>();
  if (!n || n->value <= 0) return same();
  const bool truncates = b.op == BinaryOp::kDiv || b.op == BinaryOp::kMod;
  if (truncates) {
    const Interval range = context_.bounds(x);
    if (!range.lo || *range.lo < 0) return n->value == 1 && b.op == BinaryOp::kDiv ? x : same();
  }
  const bool quotient = b.op == BinaryOp::kFloorDiv || b.op == BinaryOp::kDiv;
  if (n->value != 1 && may_wrap(to_linear(x))) return same();
  Linear out = quotient ? divide(to_linear(x), n->value) : modulo(to_linear(x), n->value);
  while (!out.overflow && join_quotients(&out)) {
  }
  return out.overflow ? same() : keep_handle(e, to_expr(out));
}

}  // namespace tessera::arith
