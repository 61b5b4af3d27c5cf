// Short constructors for expressions. They fold constants of both operands but never reorder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tessera/lang/ir/expr.h"
#include "tessera/lang/ir/stmt.h"

namespace tessera::ir {

Expr int_imm(std::int64_t v);           // i64
Expr imm(DType t, double v);            // constant of any type
Expr imm_like(Type t, double v);        // broadcast when t is a vector
Expr int_like(Type t, std::int64_t v);  // exact, unlike imm_like above 2^53
Expr bool_imm(bool v);
Expr zero(Type t);

Expr add(Expr a, Expr b);
Expr sub(Expr a, Expr b);
Expr mul(Expr a, Expr b);
Expr div(Expr a, Expr b);  // truncating / IEEE
Expr mod(Expr a, Expr b);
Expr floor_div(Expr a, Expr b);
Expr floor_mod(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr ne(Expr a, Expr b);
Expr lt(Expr a, Expr b);
Expr le(Expr a, Expr b);
Expr gt(Expr a, Expr b);
Expr ge(Expr a, Expr b);
Expr logical_and(Expr a, Expr b);
Expr logical_or(Expr a, Expr b);
Expr logical_not(Expr a);
Expr select(Expr cond, Expr on_true, Expr on_false);
Expr cast(DType to, Expr v);
Expr call(Intrinsic fn, std::vector<Expr> args);

// Operators for any mix of Expr and integer; the integer takes the type of the Expr.
inline Expr operator+(const Expr& a, const Expr& b) { return add(a, b); }
inline Expr operator-(const Expr& a, const Expr& b) { return sub(a, b); }
inline Expr operator*(const Expr& a, const Expr& b) { return mul(a, b); }
inline Expr operator+(const Expr& a, std::int64_t b) { return add(a, int_like(a.type(), b)); }
inline Expr operator-(const Expr& a, std::int64_t b) { return sub(a, int_like(a.type(), b)); }
inline Expr operator*(const Expr& a, std::int64_t b) { return mul(a, int_like(a.type(), b)); }

// The value of an integer constant (also below a Broadcast), or nothing.
std::optional<std::int64_t> as_const_int(const Expr& e);
bool is_const_int(const Expr& e, std::int64_t v);
std::optional<double> as_const_float(const Expr& e);

using VarMap = std::map<const ExprNode*, Expr>;
// Replaces variables (by identity).
Expr substitute(const Expr& e, const VarMap& map);
Stmt substitute(const Stmt& s, const VarMap& map);
Expr substitute(const Expr& e, const Expr& var, const Expr& value);
Stmt substitute(const Stmt& s, const Expr& var, const Expr& value);

}  // namespace tessera::ir
