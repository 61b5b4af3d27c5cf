// The back ends: one for each kind of target.
#pragma once

#include "tessera/codegen/codegen.h"

namespace tessera::codegen {

struct BackEnd {
  target::Kind kind;
  runtime::BinaryKind makes;
  // What a kind does not run (Funcs of GPUs, launches of CPUs) is null.
  Result<Binary> (*funcs)(const std::vector<ir::Func>& funcs, const target::Target& target,
                          const CodegenOptions& options, CodegenTimes* times);
  Result<Binary> (*program)(const ir::DeviceProgram& program, const target::Target& target,
                            const CodegenOptions& options, CodegenTimes* times);
};

// llvm/codegen.cc
Result<Binary> compile_object(const std::vector<ir::Func>& funcs, const target::Target& target,
                              const CodegenOptions& options, CodegenTimes* times);
Result<Binary> compile_ptx(const ir::DeviceProgram& program, const target::Target& target,
                           const CodegenOptions& options, CodegenTimes* times);
// opencl/codegen.cc
Result<Binary> compile_opencl(const ir::DeviceProgram& program, const target::Target& target,
                              const CodegenOptions& options, CodegenTimes* times);

// A Binary of the program without code: its parameters, temporaries and launches, whose kernels
// have symbols that are names in every language.
Result<Binary> describe(const ir::DeviceProgram& program, const target::Target& target,
                        runtime::BinaryKind kind);

}  // namespace tessera::codegen
