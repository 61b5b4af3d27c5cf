#include "tessera/lang/arith/interval.h"

#include "tessera/lang/arith/context.h"
#include "tessera/lang/arith/linear.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::arith {

using ir::Expr;

Interval const_bounds(const Expr& e, const Ranges& ranges) { return Context(ranges).bounds(e); }

std::optional<LinearForm> linear_form(const Expr& e) {
  if (!is_index(e)) return std::nullopt;
  const Linear sum = to_linear(e);
  if (sum.overflow) return std::nullopt;
  LinearForm out;
  out.constant = sum.constant;
  for (const Term& t : sum.terms) {
    if (t.atom.kind() != ir::ExprKind::kVar) return std::nullopt;
    out.coefficients.emplace(t.atom.get(), t.coefficient);
  }
  return out;
}

std::optional<SplitForm> split_on(const Expr& e, const Expr& var) {
  if (!ir::uses_var(e, var)) return SplitForm{0, e};
  if (!is_index(e)) return std::nullopt;
  Linear sum = to_linear(e);
  if (sum.overflow) return std::nullopt;
  SplitForm out;
  out.coefficient = sum.coefficient_of(var);
  sum.add_term(var, -out.coefficient);
  for (const Term& t : sum.terms) {
    if (ir::uses_var(t.atom, var)) return std::nullopt;
  }
  out.rest = to_expr(sum);
  return out;
}

}  // namespace tessera::arith
