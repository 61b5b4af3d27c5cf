// The order of loads and stores of device memory in kernels of GPUs.
#pragma once

namespace llvm {
class Module;
}

namespace tessera::codegen {

// Loads of what a kernel only reads, but others may have written, move above stores before them: as
// many as a few registers hold. The assembler does that itself only where nothing ever writes what
// is read (ld.global.nc); it does not know that stores go elsewhere. A store between two loads
// would have the second wait for its own way to memory after the first one's.
void lift_loads(llvm::Module& module);

}  // namespace tessera::codegen
