// The surface of the text form of a Dag, shared by printer and parser.
#pragma once

#include "tessera/lang/ir/expr.h"

namespace tessera::te {

// Binding strength of infix operators, higher binds tighter; 0 for those printed as a call.
int strength(ir::BinaryOp op);

}  // namespace tessera::te
