// The order of instructions within innermost loops.
#pragma once

#include "tessera/machine/target/core_table.h"

namespace llvm {
class Module;
}

namespace tessera::codegen {

// Independent chains of operations side by side: all first steps, then all second steps, ... An
// innermost loop is emitted statement by statement, each of them a chain in which every step waits
// for the one before; LLVM keeps that order, and it is more than the core looks ahead over.
// Loops whose values would not fit the registers and the sums of products of matrix kernels, with
// no more than one multiplication before each addition, stay as they are, and so does everything
// on cores that look ahead far enough.
void order_by_level(llvm::Module& module, const target::Core& core);

}  // namespace tessera::codegen
