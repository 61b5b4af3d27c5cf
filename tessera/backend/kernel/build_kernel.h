// (Dag, schedule, target) -> code: the one place where kernels are lowered and compiled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/backend/codegen/codegen.h"
#include "tessera/lang/te/dag.h"
#include "tessera/machine/runtime/device/device.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/lower/lower.h"
#include "tessera/scheduling/schedule/step.h"
#include "tessera/support/result.h"

namespace tessera::kernel {

class KernelCache;

// The code of one kernel, and what its caller must do.
struct Kernel {
  runtime::Binary binary;
  std::vector<schedule::Layout> param_layouts;  // as lower::Lowered has them
  std::uint64_t digest = 0;                     // kernel_digest
};

// Identifies what a kernel was made from: the loops of a processor, the code of a GPU. It is the
// same whether the code was built, found or linked into an artifact.
std::uint64_t kernel_digest(const ir::Func& loops);
std::uint64_t kernel_digest(const runtime::Binary& device_code);

struct BuildOptions {
  codegen::CodegenOptions codegen;
  // Entry point of a processor's object; empty: the name of the Dag made one that no C function
  // has, to be loaded into a process.
  std::string symbol;
};

// Milliseconds of every step from schedule to code, in order.
using BuildTimes = std::vector<lower::PassTime>;

Result<lower::Lowered> lower_kernel(const te::Dag& dag, const schedule::Schedule& schedule,
                                    const target::Target& target,
                                    const lower::PassOptions& passes = {});
Result<Kernel> compile_lowered(const lower::Lowered& lowered, const target::Target& target,
                               const BuildOptions& options = {}, BuildTimes* times = nullptr);
// Both, by the default schedule where none is given.
Result<Kernel> build_kernel(const te::Dag& dag, const std::optional<schedule::Schedule>& schedule,
                            const target::Target& target, const BuildOptions& options = {},
                            BuildTimes* times = nullptr);

// A kernel that can be called, found in a cache or built.
struct LoadedKernel {
  Kernel kernel;
  std::unique_ptr<runtime::LoadedCode> code;
  bool found = false;
  BuildTimes times;  // empty when it was found
};

struct LoadOptions {
  BuildOptions build;
  const KernelCache* cache = nullptr;  // null: everything is built, nothing is kept
  runtime::Device* device = nullptr;   // that loads the code; null: this process
};

Result<LoadedKernel> load_or_build(const te::Dag& dag,
                                   const std::optional<schedule::Schedule>& schedule,
                                   const target::Target& target, const LoadOptions& options = {});

}  // namespace tessera::kernel
