// The typing rules of expressions, once: make() checks them, the parser reports them, the verifier
// re-derives them.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/lang/ir/expr.h"

namespace tessera::ir {

struct Typing {
  Type type;                    // meaningful when error is null
  const char* error = nullptr;  // static text naming the broken rule
};

Typing binary_typing(BinaryOp op, Type a, Type b);
Typing select_typing(Type cond, Type on_true, Type on_false);
// The element type read or written at these indices, with the lanes of the vector indices (if any).
Typing access_typing(const Buffer& buffer, const std::vector<Expr>& indices);
Typing ramp_typing(Type base, int lanes);
Typing broadcast_typing(Type value, int total_lanes);
Typing shuffle_typing(Type value, const std::vector<int>& picks);
Typing call_typing(Intrinsic fn, const std::vector<Expr>& args);  // any but kBitcast
Typing bitcast_typing(DType to, Type value);

// Number of arguments of an intrinsic.
int arity(Intrinsic fn);
int intrinsic_count();

}  // namespace tessera::ir
