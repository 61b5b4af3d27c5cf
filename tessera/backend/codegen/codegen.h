// Lowered ir::Func or ir::DeviceProgram -> code for a target, by the back end of its kind. Loading
// and calling it belong to a device (runtime/device).
#pragma once

#include <string>
#include <vector>

#include "tessera/lang/ir/launch.h"
#include "tessera/lang/ir/stmt.h"
#include "tessera/machine/runtime/device/binary.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"

namespace tessera::codegen {

using runtime::Binary;
using runtime::KernelInfo;

struct CodegenOptions {
  int opt_level = 2;         // LLVM code generation level, 0..3
  bool verify_llvm = false;  // run LLVM's verifier (always on in debug builds)
};

struct CodegenTimes {      // milliseconds
  double build_ms = 0;     // ir -> LLVM IR
  double optimise_ms = 0;  // LLVM IR passes
  double emit_ms = 0;      // instruction selection to object code
};

Result<std::string> emit_llvm(const ir::Func& func, const target::Target& target,
                              const CodegenOptions& options = {});
Result<std::string> emit_llvm(const ir::DeviceProgram& program, const target::Target& target,
                              const CodegenOptions& options = {});
Result<std::string> emit_asm(const ir::Func& func, const target::Target& target,
                             const CodegenOptions& options = {});

// Tells the sources of libtessera_llvm.so from others: the same program writes other code with
// them.
extern const char* const kBackEndSources;

// Needs: Funcs after lowering: only serial and parallel loops, at most one parallel level taking
// effect. Entry symbols are the Funcs' names. kBuildFailed when LLVM refuses.
Result<Binary> compile(const std::vector<ir::Func>& funcs, const target::Target& target,
                       const CodegenOptions& options = {}, CodegenTimes* times = nullptr);

// The launches of a GPU program, each a kernel: PTX or OpenCL C. Needs: launches within the limits
// of the target (lower::lower_device). kUnsupported when one uses what the target does not have.
Result<Binary> compile(const ir::DeviceProgram& program, const target::Target& target,
                       const CodegenOptions& options = {}, CodegenTimes* times = nullptr);

// One Func to be loaded into a process: its symbol cannot be taken for a C function.
Result<Binary> compile_kernel(const ir::Func& func, const target::Target& target,
                              const CodegenOptions& options = {}, CodegenTimes* times = nullptr);

}  // namespace tessera::codegen
