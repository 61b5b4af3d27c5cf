#include "tessera/backend/codegen/llvm/back_end.h"

#include <map>
#include <memory>
#include <mutex>

#include <llvm/ADT/SmallVector.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include "tessera/backend/codegen/llvm/level_order.h"
#include "tessera/backend/codegen/llvm/load_order.h"
#include "tessera/backend/codegen/llvm/product_order.h"
#include "tessera/backend/codegen/llvm/schedule_options.h"

namespace tessera::codegen {
namespace {

#if LLVM_VERSION_MAJOR >= 18
using OptLevel = llvm::CodeGenOptLevel;
constexpr auto kAssemblyFile = llvm::CodeGenFileType::AssemblyFile;
constexpr auto kObjectFile = llvm::CodeGenFileType::ObjectFile;
#else
using OptLevel = llvm::CodeGenOpt::Level;
constexpr auto kAssemblyFile = llvm::CGFT_AssemblyFile;
constexpr auto kObjectFile = llvm::CGFT_ObjectFile;
#endif

// Contents: register allocation of tiles (sroa), one computation per address (early-cse), merged
// blocks.
constexpr const char* kPipeline = "function(sroa,early-cse<memssa>,simplifycfg,loop-mssa(licm))";

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

// The name chooses a scheduling model; features are given apart. An LLVM older than the processor
// does not know it, and would end the program.
template <class Triple>
std::string known_cpu(const llvm::Target& registered, const Triple& triple,
                      const target::Target& target) {
  const std::unique_ptr<llvm::MCSubtargetInfo> info(
      registered.createMCSubtargetInfo(triple, "", ""));
  if (info && info->isCPUStringValid(target.cpu)) return target.cpu;
  if (target.row().launches) return target.cpu;
  return std::string(target::row_of(target.arch).generic_cpu);
}

Result<std::unique_ptr<llvm::TargetMachine>> make_machine(const target::Target& target,
                                                          int opt_level) {
  initialise_llvm();
  set_common_options();
  std::string reason;
#if LLVM_VERSION_MAJOR >= 22
  const llvm::Triple triple(target.triple);
#else
  const std::string& triple = target.triple;
#endif
  const llvm::Target* registered = llvm::TargetRegistry::lookupTarget(triple, reason);
  if (!registered) return make_error(ErrorCode::kUnsupported, "target {}: {}", target.name, reason);
  const int level = opt_level < 0 ? 0 : opt_level > 3 ? 3 : opt_level;
#if LLVM_VERSION_MAJOR == 21
  const llvm::Triple machine_triple(target.triple);
#else
  const auto& machine_triple = triple;
#endif
  // What a driver lacks is no word of every LLVM.
  const std::string features =
      target.is_gpu() ? target.features.substr(0, target.features.find(',')) : target.features;
  std::unique_ptr<llvm::TargetMachine> machine(registered->createTargetMachine(
      machine_triple, known_cpu(*registered, machine_triple, target), features,
      llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt, static_cast<OptLevel>(level)));
  if (!machine)
    return make_error(ErrorCode::kUnsupported, "target {}: LLVM has no machine for it",
                      target.name);
  return machine;
}

}  // namespace

Result<llvm::TargetMachine*> target_machine(const target::Target& target, int opt_level) {
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  const std::string key =
      fmt::format("{}|{}|{}|{}", target.triple, target.cpu, target.features, opt_level);
  std::unique_ptr<llvm::TargetMachine>& machine = machines[key];
  if (!machine) {
    TESSERA_TRY(machine, make_machine(target, opt_level));
  }
  return machine.get();
}

void prepare(llvm::Module& module, llvm::TargetMachine& machine) {
#if LLVM_VERSION_MAJOR >= 21
  module.setTargetTriple(machine.getTargetTriple());
#else
  module.setTargetTriple(machine.getTargetTriple().str());
#endif
  module.setDataLayout(machine.createDataLayout());
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(passes, kPipeline));
  passes.run(module, modules);
  if (machine.getTargetTriple().isNVPTX()) {
    lift_loads(module);
    return order_products(module);
  }
  const target::Arch arch =
      machine.getTargetTriple().isAArch64() ? target::Arch::kAArch64 : target::Arch::kX86_64;
  order_by_level(module, target::core_of(arch, machine.getTargetCPU().str()));
}

Result<void> verify_module(const llvm::Module& module) {
  std::string reason;
  llvm::raw_string_ostream out(reason);
  if (llvm::verifyModule(module, &out))
    return make_error(ErrorCode::kBuildFailed, "LLVM verifier: {}", out.str());
  return {};
}

namespace {

// The passes of one machine with the buffer they write to. LLVM's own llc reuses them the same way
// (-compile-twice); setting them up takes a sixth of the time of a small kernel.
struct Emission {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out{bytes};
  llvm::legacy::PassManager passes;
};

}  // namespace

Result<std::string> emit_file(llvm::Module& module, llvm::TargetMachine& machine, FileKind kind) {
  // Made after the machines of target_machine() and so destroyed before them.
  thread_local std::map<std::pair<const llvm::TargetMachine*, FileKind>, std::unique_ptr<Emission>>
      emissions;
  const ScheduleOptions options(machine.getTargetTriple().isAArch64());
  std::unique_ptr<Emission>& emission = emissions[{&machine, kind}];
  if (!emission) {
    auto made = std::make_unique<Emission>();
    const auto type = kind == FileKind::kAssembly ? kAssemblyFile : kObjectFile;
    if (machine.addPassesToEmitFile(made->passes, made->out, nullptr, type,
                                    /*DisableVerify=*/true)) {
      return make_error(ErrorCode::kBuildFailed, "LLVM cannot emit this file kind for {}",
                        machine.getTargetTriple().str());
    }
    emission = std::move(made);
  }
  emission->bytes.clear();
  emission->passes.run(module);
  std::string text(emission->bytes.begin(), emission->bytes.end());
  // The printer of PTX keeps what it knew of the last module.
  if (machine.getTargetTriple().isNVPTX()) emission.reset();
  return text;
}

}  // namespace tessera::codegen
