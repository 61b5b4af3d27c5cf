// Simplification of integer and boolean index arithmetic, using known ranges of variables.
#pragma once

#include "tessera/lang/arith/interval.h"
#include "tessera/lang/ir/expr.h"
#include "tessera/lang/ir/stmt.h"

namespace tessera::arith {

// Same value on every point of the ranges. Integer arithmetic is assumed not to overflow i64 (index
// space). Floats: only constant folding and x*1, x+0 on identical semantics; never reassociates.
// Idempotent; returns the same handle when nothing changed.
ir::Expr simplify(const ir::Expr& e, const Ranges& ranges = {});

// Simplifies every expression with the ranges of the loops around it; folds Ifs with known
// conditions, removes loops of extent 0, substitutes loops of extent 1, and narrows conditions
// implied by enclosing Ifs.
ir::Stmt simplify(const ir::Stmt& s, const Ranges& ranges = {});

// True only if cond holds on every point of the ranges.
bool can_prove(const ir::Expr& cond, const Ranges& ranges);

}  // namespace tessera::arith
