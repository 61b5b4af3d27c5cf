#include "tessera/lang/arith/linear.h"

#include <limits>

#include "tessera/lang/ir/build.h"

namespace tessera::arith {

using ir::Binary;
using ir::BinaryOp;
using ir::Expr;

namespace {

// ir::equal, with the common answers first.
bool same_atom(const Expr& a, const Expr& b) {
  if (a.same_as(b)) return true;
  return a.kind() == b.kind() && a.kind() != ir::ExprKind::kVar && ir::equal(a, b);
}

}  // namespace

void Linear::add_constant(std::int64_t value, std::int64_t scale) {
  std::int64_t scaled = 0;
  if (__builtin_mul_overflow(value, scale, &scaled) ||
      __builtin_add_overflow(constant, scaled, &constant)) {
    overflow = true;
  }
}

void Linear::add_term(const Expr& atom, std::int64_t coefficient) {
  if (coefficient == 0) return;
  if (coefficient == std::numeric_limits<std::int64_t>::min()) overflow = true;  // has no magnitude
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (!same_atom(terms[i].atom, atom)) continue;
    if (__builtin_add_overflow(terms[i].coefficient, coefficient, &terms[i].coefficient))
      overflow = true;
    if (terms[i].coefficient == 0) terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
  terms.push_back({atom, coefficient});
}

void Linear::add(const Linear& other, std::int64_t scale) {
  overflow = overflow || other.overflow;
  for (const Term& t : other.terms) {
    std::int64_t scaled = 0;
    if (__builtin_mul_overflow(t.coefficient, scale, &scaled)) overflow = true;
    add_term(t.atom, scaled);
  }
  add_constant(other.constant, scale);
}

std::int64_t Linear::coefficient_of(const Expr& atom) const {
  for (const Term& t : terms) {
    if (same_atom(t.atom, atom)) return t.coefficient;
  }
  return 0;
}

void flatten(const Expr& e, std::int64_t scale, Linear* out) {
  if (const auto* i = e.as<ir::IntImm>()) return out->add_constant(i->value, scale);
  const auto* b = is_index(e) ? e.as<Binary>() : nullptr;
  if (b && (b->op == BinaryOp::kAdd || b->op == BinaryOp::kSub)) {
    const bool negative = b->op == BinaryOp::kSub;
    if (negative && scale == std::numeric_limits<std::int64_t>::min()) out->overflow = true;
    flatten(b->a, scale, out);
    return flatten(b->b, negative && !out->overflow ? -scale : scale, out);
  }
  if (b && b->op == BinaryOp::kMul) {
    const auto* factor = b->b.as<ir::IntImm>();
    const Expr& value = factor ? b->a : b->b;
    if (!factor) factor = b->a.as<ir::IntImm>();
    std::int64_t product = 0;
    if (factor && !__builtin_mul_overflow(scale, factor->value, &product))
      return flatten(value, product, out);
  }
  out->add_term(e, scale);
}

Linear to_linear(const Expr& e) {
  Linear out;
  flatten(e, 1, &out);
  return out;
}

namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

Expr scaled(const Expr& atom, std::int64_t coefficient) {
  return coefficient == 1 ? atom : Binary::make(BinaryOp::kMul, atom, ir::int_imm(coefficient));
}

}  // namespace

Expr to_expr(const Linear& sum) {
  std::size_t first = 0;
  while (first < sum.terms.size() && sum.terms[first].coefficient < 0) ++first;
  Expr out;
  bool constant_used = false;
  if (first < sum.terms.size()) {
    out = scaled(sum.terms[first].atom, sum.terms[first].coefficient);
  } else if (sum.constant > 0 || sum.terms.empty()) {
    out = ir::int_imm(sum.constant);
    constant_used = true;
  }
  for (std::size_t i = 0; i < sum.terms.size(); ++i) {
    if (i == first) continue;
    const auto& [atom, c] = sum.terms[i];
    if (!out) {
      out = scaled(atom, c);
    } else if (c > 0 || c == kMin) {
      out = Binary::make(BinaryOp::kAdd, out, scaled(atom, c));
    } else {
      out = Binary::make(BinaryOp::kSub, out, scaled(atom, -c));
    }
  }
  if (constant_used || sum.constant == 0) return out;
  if (sum.constant > 0 || sum.constant == kMin) {
    return Binary::make(BinaryOp::kAdd, out, ir::int_imm(sum.constant));
  }
  return Binary::make(BinaryOp::kSub, out, ir::int_imm(-sum.constant));
}

Linear difference(const Linear& a, const Linear& b) {
  Linear out = a;
  out.add(b, -1);
  return out;
}

std::optional<ConstOperand> match_const_op(const Expr& e, BinaryOp op) {
  const auto* b = e.as<Binary>();
  if (!b || b->op != op || !is_index(e)) return std::nullopt;
  const auto* c = b->b.as<ir::IntImm>();
  if (!c || c->value <= 0) return std::nullopt;
  return ConstOperand{&b->a, c->value};
}

}  // namespace tessera::arith
