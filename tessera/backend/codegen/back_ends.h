// The back ends: one for each kind of target.
#pragma once

#include "tessera/backend/codegen/codegen.h"

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

// What libtessera_llvm.so does (llvm/codegen.cc). LLVM takes longer to load than many a model from
// the cache takes to run, so a process loads it when it first compiles.
struct LlvmBackEnd {
  Result<Binary> (*object)(const std::vector<ir::Func>& funcs, const target::Target& target,
                           const CodegenOptions& options, CodegenTimes* times);
  Result<Binary> (*ptx)(const ir::DeviceProgram& program, const target::Target& target,
                        const CodegenOptions& options, CodegenTimes* times);
  Result<std::string> (*text)(const ir::Func& func, const target::Target& target,
                              const CodegenOptions& options);
  Result<std::string> (*program_text)(const ir::DeviceProgram& program,
                                      const target::Target& target, const CodegenOptions& options);
  Result<std::string> (*assembly)(const ir::Func& func, const target::Target& target,
                                  const CodegenOptions& options);
};

// llvm_module.cc. Loaded once, from where the run path of the program or of libtessera.so leads.
Result<const LlvmBackEnd*> llvm_back_end();
// kUnavailable with the reason where `file` cannot be loaded, or is not that library of `version`.
Result<const LlvmBackEnd*> load_llvm(const std::string& file, const std::string& version);

// opencl/codegen.cc
Result<Binary> compile_opencl(const ir::DeviceProgram& program, const target::Target& target,
                              const CodegenOptions& options, CodegenTimes* times);

// describe.cc. A Binary of the program without code: its parameters, temporaries and launches,
// whose kernels have symbols that are names in every language.
Result<Binary> describe(const ir::DeviceProgram& program, const target::Target& target,
                        runtime::BinaryKind kind);

}  // namespace tessera::codegen
