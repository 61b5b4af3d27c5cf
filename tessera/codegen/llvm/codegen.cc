#include "tessera/codegen/codegen.h"

#include <chrono>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>

#include "tessera/codegen/llvm/back_end.h"
#include "tessera/codegen/llvm/emitter.h"
#include "tessera/codegen/llvm/loader.h"

namespace tessera::codegen {
namespace {

class Stopwatch {
 public:
  double lap_ms() {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return ms;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Optimised LLVM IR of some Funcs, ready to be emitted.
struct Unit {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  llvm::TargetMachine* machine = nullptr;
  std::vector<KernelInfo> kernels;
  CodegenTimes times;
};

#ifdef NDEBUG
constexpr bool kAlwaysVerify = false;
#else
constexpr bool kAlwaysVerify = true;
#endif

Result<std::unique_ptr<Unit>> build(const ir::Func* funcs, std::size_t count,
                                    const target::Target& target, const CodegenOptions& options) {
  auto unit = std::make_unique<Unit>();
  TESSERA_TRY(unit->machine, target_machine(target, options.opt_level));
  Stopwatch watch;
  unit->module = std::make_unique<llvm::Module>("tessera", unit->context);
  prepare(*unit->module, *unit->machine);
  for (std::size_t i = 0; i < count; ++i) {
    llvm::IRBuilder<> builder(unit->context);
    Emitter emitter(*unit->module, builder, target, funcs[i]);
    TESSERA_TRY(KernelInfo info, emitter.emit());
    unit->kernels.push_back(std::move(info));
  }
  if (options.verify_llvm || kAlwaysVerify) TESSERA_DO(verify_module(*unit->module));
  unit->times.build_ms = watch.lap_ms();
  optimise(*unit->module, *unit->machine);
  unit->times.optimise_ms = watch.lap_ms();
  return unit;
}

class JitKernel final : public Kernel {
 public:
  explicit JitKernel(std::unique_ptr<LoadedObject> object) : object_(std::move(object)) {}
  void* symbol(const std::string& name) { return object_->symbol(name); }

 private:
  std::unique_ptr<LoadedObject> object_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> jit(const ir::Func& func, const target::Target& target,
                                    const CodegenOptions& options, ObjectCode* code) {
  if (!target::runs_on_host(target)) {
    return make_error(ErrorCode::kUnsupported, "code for target {} does not run on this machine",
                      target.name);
  }
  // A kernel named like a C function (exp, pow) would call itself where it means the library.
  ir::Func renamed = func;
  renamed.name = "tsr." + func.name;
  TESSERA_TRY(std::unique_ptr<Unit> unit, build(&renamed, 1, target, options));
  Stopwatch watch;
  TESSERA_TRY(const std::string object,
              emit_file(*unit->module, *unit->machine, FileKind::kObject));
  unit->times.emit_ms = watch.lap_ms();
  TESSERA_TRY(std::unique_ptr<LoadedObject> loaded, load_object(object));
  auto kernel = std::make_unique<JitKernel>(std::move(loaded));
  kernel->entry = reinterpret_cast<tsr_kernel>(kernel->symbol(renamed.name));
  unit->times.link_ms = watch.lap_ms();
  if (!kernel->entry)
    return make_error(ErrorCode::kBuildFailed, "{} is not in its object code", func.name);
  kernel->info = unit->kernels[0];
  if (code) *code = {{object.begin(), object.end()}, {kernel->info}};
  kernel->info.name = func.name;
  kernel->times = unit->times;
  return std::unique_ptr<Kernel>(std::move(kernel));
}

Result<std::string> emit_llvm(const ir::Func& func, const target::Target& target,
                              const CodegenOptions& options) {
  TESSERA_TRY(const std::unique_ptr<Unit> unit, build(&func, 1, target, options));
  std::string text;
  llvm::raw_string_ostream out(text);
  unit->module->print(out, nullptr);
  return std::move(out.str());
}

Result<std::string> emit_asm(const ir::Func& func, const target::Target& target,
                             const CodegenOptions& options) {
  TESSERA_TRY(const std::unique_ptr<Unit> unit, build(&func, 1, target, options));
  return emit_file(*unit->module, *unit->machine, FileKind::kAssembly);
}

Result<ObjectCode> emit_object(const std::vector<ir::Func>& funcs, const target::Target& target,
                               const CodegenOptions& options) {
  TESSERA_TRY(const std::unique_ptr<Unit> unit, build(funcs.data(), funcs.size(), target, options));
  TESSERA_TRY(const std::string object,
              emit_file(*unit->module, *unit->machine, FileKind::kObject));
  return ObjectCode{{object.begin(), object.end()}, unit->kernels};
}

Result<std::unique_ptr<Kernel>> load_kernel(const ObjectCode& object, std::size_t kernel) {
  if (kernel >= object.kernels.size())
    return make_error(ErrorCode::kInvalidArgument, "object code has no kernel {}", kernel);
  Stopwatch watch;
  TESSERA_TRY(std::unique_ptr<LoadedObject> loaded,
              load_object(std::string(object.bytes.begin(), object.bytes.end())));
  auto result = std::make_unique<JitKernel>(std::move(loaded));
  result->info = object.kernels[kernel];
  result->entry = reinterpret_cast<tsr_kernel>(result->symbol(result->info.name));
  result->times.link_ms = watch.lap_ms();
  if (!result->entry) {
    return make_error(ErrorCode::kBuildFailed, "{} is not in its object code", result->info.name);
  }
  return std::unique_ptr<Kernel>(std::move(result));
}

}  // namespace tessera::codegen
