// Lowered ir::Func -> machine code. The LLVM back end is the only one behind it so far.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/ir/stmt.h"
#include "tessera/runtime/abi.h"
#include "tessera/support/result.h"
#include "tessera/target/target.h"

namespace tessera::codegen {

struct CodegenOptions {
  int opt_level = 2;         // LLVM code generation level, 0..3
  bool verify_llvm = false;  // run LLVM's verifier (always on in debug builds)
};

// What a caller must provide to run the code.
struct KernelInfo {
  std::string name;
  std::int64_t shared_bytes = 0;  // workspace used once per call
  std::int64_t worker_bytes = 0;  // workspace used per worker of the host
};

struct CodegenTimes {      // milliseconds
  double build_ms = 0;     // ir -> LLVM IR
  double optimise_ms = 0;  // LLVM IR passes
  double emit_ms = 0;      // instruction selection to object code
  double link_ms = 0;      // loading into the process
};

// Code in this process. Safe to call from several threads with different workspaces.
class Kernel {
 public:
  virtual ~Kernel() = default;
  tsr_kernel entry = nullptr;
  KernelInfo info;
  CodegenTimes times;
};

Result<std::string> emit_llvm(const ir::Func& func, const target::Target& target,
                              const CodegenOptions& options = {});
Result<std::string> emit_asm(const ir::Func& func, const target::Target& target,
                             const CodegenOptions& options = {});

struct ObjectCode {
  std::vector<std::uint8_t> bytes;  // relocatable ELF
  std::vector<KernelInfo> kernels;  // entry symbol = info.name
};
// Needs: a Func after lowering: only serial and parallel loops, at most one parallel level taking
// effect. kUnsupported when the target cannot run here; kBuildFailed when LLVM refuses. `object`,
// where given, receives what was loaded; its symbol is not the Func's name.
Result<std::unique_ptr<Kernel>> jit(const ir::Func& func, const target::Target& target,
                                    const CodegenOptions& options = {},
                                    ObjectCode* object = nullptr);

Result<ObjectCode> emit_object(const std::vector<ir::Func>& funcs, const target::Target& target,
                               const CodegenOptions& options = {});

// Puts one kernel of object code made for this machine into this process; its times hold link_ms
// alone. kBuildFailed when the object is damaged or needs what the process does not have.
Result<std::unique_ptr<Kernel>> load_kernel(const ObjectCode& object, std::size_t kernel = 0);

}  // namespace tessera::codegen
