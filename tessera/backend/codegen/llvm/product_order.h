// The order of the products that a thread of a GPU adds up.
#pragma once

namespace llvm {
class Module;
}

namespace tessera::codegen {

// The accumulators of a thread are an outer product at every step: rows of one operand times
// columns of the other. A multiprocessor takes one such instruction a cycle from every warp
// scheduler, but its registers lie in two banks that deliver one operand each; the third must be
// one that was just used. So rows are walked back and forth, and every product shares an operand
// with the one before. Sums that are stored as vectors pass through another register first: the
// vectors would otherwise prescribe the banks of the sums throughout the loop.
void order_products(llvm::Module& module);

}  // namespace tessera::codegen
