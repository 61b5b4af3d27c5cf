#include "tessera/backend/kernel/build_kernel.h"

#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/lang/ir/text.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/support/clock.h"
#include "tessera/support/hash.h"

namespace tessera::kernel {
namespace {

Result<std::unique_ptr<runtime::LoadedCode>> load(const runtime::Binary& binary,
                                                  runtime::Device* device) {
  if (device) return device->load(binary);
  TESSERA_TRY(std::unique_ptr<runtime::CpuKernel> kernel, runtime::load_kernel(binary));
  return std::unique_ptr<runtime::LoadedCode>(std::move(kernel));
}

Result<Kernel> compile_device(const lower::Lowered& lowered, const target::Target& target,
                              const BuildOptions& options, BuildTimes* times) {
  const Clock::time_point start = Clock::now();
  Kernel out;
  TESSERA_TRY(out.binary, codegen::compile(lowered.program, target, options.codegen));
  if (times) times->push_back({"codegen", milliseconds_since(start)});
  out.digest = kernel_digest(out.binary);
  return out;
}

Result<Kernel> compile_loops(const lower::Lowered& lowered, const target::Target& target,
                             const BuildOptions& options, BuildTimes* times) {
  Kernel out;
  codegen::CodegenTimes llvm;
  if (options.symbol.empty()) {
    TESSERA_TRY(out.binary, codegen::compile_kernel(lowered.func, target, options.codegen, &llvm));
  } else {
    ir::Func func = lowered.func;
    func.name = options.symbol;
    TESSERA_TRY(out.binary, codegen::compile({func}, target, options.codegen, &llvm));
  }
  out.digest = kernel_digest(lowered.func);
  if (times) {
    times->push_back({"llvm_build", llvm.build_ms});
    times->push_back({"llvm_optimise", llvm.optimise_ms});
    times->push_back({"llvm_emit", llvm.emit_ms});
  }
  return out;
}

}  // namespace

std::uint64_t kernel_digest(const ir::Func& loops) { return hash_bytes(ir::to_text(loops)); }

std::uint64_t kernel_digest(const runtime::Binary& device_code) {
  return hash_bytes(
      {reinterpret_cast<const char*>(device_code.bytes.data()), device_code.bytes.size()});
}

Result<lower::Lowered> lower_kernel(const te::Dag& dag, const schedule::Schedule& schedule,
                                    const target::Target& target,
                                    const lower::PassOptions& passes) {
  const Clock::time_point start = Clock::now();
  TESSERA_TRY(const schedule::State state, schedule::apply(dag, schedule));
  const double apply_ms = milliseconds_since(start);
  TESSERA_TRY(lower::Lowered out, lower::lower(state, target, passes));
  out.times.insert(out.times.begin(), {"apply_schedule", apply_ms});
  return out;
}

Result<Kernel> compile_lowered(const lower::Lowered& lowered, const target::Target& target,
                               const BuildOptions& options, BuildTimes* times) {
  const auto compile = lowered.program.launches.empty() ? compile_loops : compile_device;
  TESSERA_TRY(Kernel out, compile(lowered, target, options, times));
  out.param_layouts = lowered.param_layouts;
  return out;
}

Result<Kernel> build_kernel(const te::Dag& dag, const std::optional<schedule::Schedule>& schedule,
                            const target::Target& target, const BuildOptions& options,
                            BuildTimes* times) {
  lower::Lowered lowered;
  if (schedule) {
    TESSERA_TRY(lowered, lower_kernel(dag, *schedule, target));
  } else {
    TESSERA_TRY(space::DefaultSchedule made, space::lower_default(dag, target));
    lowered = std::move(made.lowered);
  }
  if (times) *times = lowered.times;
  return compile_lowered(lowered, target, options, times);
}

Result<LoadedKernel> load_or_build(const te::Dag& dag,
                                   const std::optional<schedule::Schedule>& schedule,
                                   const target::Target& target, const LoadOptions& options) {
  LoadedKernel out;
  std::string key;
  if (options.cache) {
    // No step at all is not the default.
    const std::string steps = schedule ? schedule::to_text(*schedule) + "end" : "";
    key = KernelCache::key(target, options.build.codegen, te::to_text(dag), steps);
    std::optional<Kernel> known = options.cache->find(key, target);
    // A damaged entry is as good as none.
    if (auto code = known ? load(known->binary, options.device) : Error{}; code.ok()) {
      return LoadedKernel{std::move(*known), std::move(*code), true, {}};
    }
  }
  TESSERA_TRY(out.kernel, build_kernel(dag, schedule, target, options.build, &out.times));
  const Clock::time_point loading = Clock::now();
  TESSERA_TRY(out.code, load(out.kernel.binary, options.device));
  out.times.push_back({"load", milliseconds_since(loading)});
  if (!key.empty()) options.cache->store(key, out.kernel);
  return out;
}

}  // namespace tessera::kernel
