// Sums of coefficient * atom + constant over scalar i64: the normal form of index arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/lang/ir/expr.h"

namespace tessera::arith {

// b > 0.
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}
inline std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  return a % b + (a % b < 0 ? b : 0);
}

// Scalar i64: the type whose arithmetic is assumed not to overflow.
inline bool is_index(const ir::Expr& e) { return e.type() == ir::Type{DType::kI64, 1}; }

struct Term {
  ir::Expr atom;  // no sum, no difference, no product with a constant
  std::int64_t coefficient = 0;
};

// Terms have distinct atoms and non-zero coefficients, in order of first occurrence.
struct Linear {
  std::vector<Term> terms;
  std::int64_t constant = 0;
  bool overflow = false;  // a coefficient or the constant left i64; the form has no meaning then

  void add_constant(std::int64_t value, std::int64_t scale = 1);
  void add_term(const ir::Expr& atom, std::int64_t coefficient);
  void add(const Linear& other, std::int64_t scale = 1);
  bool is_constant() const { return terms.empty() && !overflow; }
  // Coefficient of the atom; 0 when absent.
  std::int64_t coefficient_of(const ir::Expr& atom) const;
};

// out += scale * e, looking through +, - and products with constants only.
void flatten(const ir::Expr& e, std::int64_t scale, Linear* out);
Linear to_linear(const ir::Expr& e);

// The sum as an expression: a positive term first, then the others in order, the constant last.
ir::Expr to_expr(const Linear& sum);

Linear difference(const Linear& a, const Linear& b);

// x op c with a constant c > 0, for op kFloorDiv or kFloorMod.
struct ConstOperand {
  const ir::Expr* value;  // inside the matched expression
  std::int64_t divisor;
};
std::optional<ConstOperand> match_const_op(const ir::Expr& e, ir::BinaryOp op);

}  // namespace tessera::arith
