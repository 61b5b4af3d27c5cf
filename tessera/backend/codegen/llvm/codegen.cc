#include <algorithm>
#include <cstring>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>

#include "tessera/backend/codegen/back_ends.h"
#include "tessera/backend/codegen/llvm/back_end.h"
#include "tessera/backend/codegen/llvm/emitter.h"
#include "tessera/support/clock.h"

namespace tessera::codegen {
namespace {

class Stopwatch {
 public:
  double lap_ms() {
    const auto now = Clock::now();
    const double ms = 1e3 * seconds_between(last_, now);
    last_ = now;
    return ms;
  }

 private:
  Clock::time_point last_ = Clock::now();
};

// Optimised LLVM IR of some Funcs, ready to be emitted.
struct Unit {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  llvm::TargetMachine* machine = nullptr;
  std::vector<KernelInfo> kernels;
  int ptx = 0;  // version, times ten, that the code needs beyond what LLVM writes for the target
  CodegenTimes times;
};

#ifdef NDEBUG
constexpr bool kAlwaysVerify = false;
#else
constexpr bool kAlwaysVerify = true;
#endif

// A module that `fill` writes functions to.
template <class Fill>
Result<std::unique_ptr<Unit>> build(const target::Target& target, const CodegenOptions& options,
                                    const Fill& fill) {
  auto unit = std::make_unique<Unit>();
  TESSERA_TRY(unit->machine, target_machine(target, options.opt_level));
  Stopwatch watch;
  unit->module = std::make_unique<llvm::Module>("tessera", unit->context);
  prepare(*unit->module, *unit->machine);
  llvm::IRBuilder<> builder(unit->context);
  TESSERA_DO(fill(*unit, builder));
  if (options.verify_llvm || kAlwaysVerify) TESSERA_DO(verify_module(*unit->module));
  unit->times.build_ms = watch.lap_ms();
  optimise(*unit->module, *unit->machine);
  unit->times.optimise_ms = watch.lap_ms();
  return unit;
}

Result<std::unique_ptr<Unit>> build(const ir::Func* funcs, std::size_t count,
                                    const target::Target& target, const CodegenOptions& options) {
  return build(target, options, [&](Unit& unit, llvm::IRBuilder<>& builder) -> Result<void> {
    for (std::size_t i = 0; i < count; ++i) {
      Emitter emitter(*unit.module, builder, target, funcs[i]);
      TESSERA_TRY(KernelInfo info, emitter.emit());
      unit.kernels.push_back(std::move(info));
    }
    return {};
  });
}

// Completes what describe() knows of the launches.
Result<std::unique_ptr<Unit>> build(const ir::DeviceProgram& program, Binary* binary,
                                    const CodegenOptions& options) {
  const target::Target& target = binary->target;
  return build(target, options, [&](Unit& unit, llvm::IRBuilder<>& builder) -> Result<void> {
    for (std::size_t i = 0; i < program.launches.size(); ++i) {
      runtime::LaunchInfo& info = binary->launches[i];
      Emitter emitter(*unit.module, builder, target, program.launches[i], info.name,
                      program.constants);
      TESSERA_TRY(const runtime::LaunchInfo emitted, emitter.emit_launch());
      info.shared_bytes = emitted.shared_bytes;
      unit.ptx = std::max(unit.ptx, emitter.ptx());
    }
    return {};
  });
}

std::string text_of(const Unit& unit) {
  std::string text;
  llvm::raw_string_ostream out(text);
  unit.module->print(out, nullptr);
  return std::move(out.str());
}

Result<std::string> func_text(const ir::Func& func, const target::Target& target,
                              const CodegenOptions& options) {
  TESSERA_TRY(const std::unique_ptr<Unit> unit, build(&func, 1, target, options));
  return text_of(*unit);
}

Result<std::string> program_text(const ir::DeviceProgram& program, const target::Target& target,
                                 const CodegenOptions& options) {
  TESSERA_TRY(Binary binary, describe(program, target, runtime::BinaryKind::kPtx));
  TESSERA_TRY(const std::unique_ptr<Unit> unit, build(program, &binary, options));
  return text_of(*unit);
}

Result<std::string> assembly(const ir::Func& func, const target::Target& target,
                             const CodegenOptions& options) {
  TESSERA_TRY(const std::unique_ptr<Unit> unit, build(&func, 1, target, options));
  return emit_file(*unit->module, *unit->machine, FileKind::kAssembly);
}

Result<Binary> compile_object(const std::vector<ir::Func>& funcs, const target::Target& target,
                              const CodegenOptions& options, CodegenTimes* times) {
  TESSERA_TRY(const std::unique_ptr<Unit> unit, build(funcs.data(), funcs.size(), target, options));
  Stopwatch watch;
  TESSERA_TRY(const std::string object,
              emit_file(*unit->module, *unit->machine, FileKind::kObject));
  unit->times.emit_ms = watch.lap_ms();
  if (times) *times = unit->times;
  Binary binary;
  binary.target = target;
  binary.bytes.assign(object.begin(), object.end());
  binary.kernels = std::move(unit->kernels);
  return binary;
}

// Not every LLVM knows the version as a feature.
void raise_version(int version, std::string* ptx) {
  constexpr std::string_view kWord = ".version ";
  const std::size_t at = ptx->find(kWord);
  if (version == 0 || at == std::string::npos) return;
  const std::size_t number = at + kWord.size();
  ptx->replace(number, ptx->find('\n', number) - number,
               fmt::format("{}.{}", version / 10, version % 10));
}

Result<Binary> compile_ptx(const ir::DeviceProgram& program, const target::Target& target,
                           const CodegenOptions& options, CodegenTimes* times) {
  TESSERA_TRY(Binary binary, describe(program, target, runtime::BinaryKind::kPtx));
  TESSERA_TRY(const std::unique_ptr<Unit> unit, build(program, &binary, options));
  Stopwatch watch;
  TESSERA_TRY(std::string text, emit_file(*unit->module, *unit->machine, FileKind::kAssembly));
  raise_version(unit->ptx, &text);
  unit->times.emit_ms = watch.lap_ms();
  if (times) *times = unit->times;
  binary.bytes.assign(text.begin(), text.end());
  return binary;
}

constexpr LlvmBackEnd kBackEnd = {compile_object, compile_ptx, func_text, program_text, assembly};

}  // namespace

// The one function that the library shows. Null for a program of another version.
extern "C" const LlvmBackEnd* tessera_llvm_back_end(const char* version) {
  return std::strcmp(version, TESSERA_VERSION) == 0 ? &kBackEnd : nullptr;
}

}  // namespace tessera::codegen
