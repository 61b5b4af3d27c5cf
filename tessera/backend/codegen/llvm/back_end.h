// LLVM's target machines, IR passes and code emission.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace tessera::codegen {

// Owned by the calling thread, which keeps one machine per kind of target: setting one up costs
// more than compiling a small kernel with it.
Result<llvm::TargetMachine*> target_machine(const target::Target& target, int opt_level);

// Gives the module the machine's triple and data layout. Before any code is put into it.
void prepare(llvm::Module& module, llvm::TargetMachine& machine);

// The few passes that generated code needs: stack tiles to registers, common addresses, tidy
// blocks.
void optimise(llvm::Module& module, llvm::TargetMachine& machine);

Result<void> verify_module(const llvm::Module& module);

enum class FileKind { kAssembly, kObject };
Result<std::string> emit_file(llvm::Module& module, llvm::TargetMachine& machine, FileKind kind);

}  // namespace tessera::codegen
