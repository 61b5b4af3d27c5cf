#include "tessera/backend/codegen/codegen.h"

#include <algorithm>
#include <array>

#include "tessera/backend/codegen/back_ends.h"

namespace tessera::codegen {
namespace {

using runtime::BinaryKind;

Result<Binary> compile_object(const std::vector<ir::Func>& funcs, const target::Target& target,
                              const CodegenOptions& options, CodegenTimes* times) {
  TESSERA_TRY(const LlvmBackEnd* llvm, llvm_back_end());
  return llvm->object(funcs, target, options, times);
}

Result<Binary> compile_ptx(const ir::DeviceProgram& program, const target::Target& target,
                           const CodegenOptions& options, CodegenTimes* times) {
  TESSERA_TRY(const LlvmBackEnd* llvm, llvm_back_end());
  return llvm->ptx(program, target, options, times);
}

constexpr std::array kBackEnds = {
    BackEnd{target::Kind::kCpu, BinaryKind::kObject, compile_object, nullptr},
    BackEnd{target::Kind::kCuda, BinaryKind::kPtx, nullptr, compile_ptx},
    BackEnd{target::Kind::kOpenCl, BinaryKind::kOpenClC, nullptr, compile_opencl},
};

const BackEnd& back_end(const target::Target& target) {
  const auto* found = std::find_if(kBackEnds.begin(), kBackEnds.end(),
                                   [&](const BackEnd& b) { return b.kind == target.kind; });
  TESSERA_CHECK(found != kBackEnds.end(), "no back end for {}", target::to_text(target.kind));
  return *found;
}

}  // namespace

Result<Binary> compile(const std::vector<ir::Func>& funcs, const target::Target& target,
                       const CodegenOptions& options, CodegenTimes* times) {
  const BackEnd& end = back_end(target);
  if (end.funcs) return end.funcs(funcs, target, options, times);
  return make_error(ErrorCode::kUnsupported,
                    "target {}: loops of a CPU; bind them to blocks and threads", target.name);
}

Result<Binary> compile(const ir::DeviceProgram& program, const target::Target& target,
                       const CodegenOptions& options, CodegenTimes* times) {
  const BackEnd& end = back_end(target);
  if (end.program) return end.program(program, target, options, times);
  return make_error(ErrorCode::kUnsupported, "target {}: launches of a GPU", target.name);
}

Result<std::string> emit_llvm(const ir::Func& func, const target::Target& target,
                              const CodegenOptions& options) {
  TESSERA_TRY(const LlvmBackEnd* llvm, llvm_back_end());
  return llvm->text(func, target, options);
}

Result<std::string> emit_llvm(const ir::DeviceProgram& program, const target::Target& target,
                              const CodegenOptions& options) {
  if (back_end(target).program != compile_ptx)
    return make_error(ErrorCode::kUnsupported, "target {}: not compiled by LLVM", target.name);
  TESSERA_TRY(const LlvmBackEnd* llvm, llvm_back_end());
  return llvm->program_text(program, target, options);
}

Result<std::string> emit_asm(const ir::Func& func, const target::Target& target,
                             const CodegenOptions& options) {
  TESSERA_TRY(const LlvmBackEnd* llvm, llvm_back_end());
  return llvm->assembly(func, target, options);
}

Result<Binary> compile_kernel(const ir::Func& func, const target::Target& target,
                              const CodegenOptions& options, CodegenTimes* times) {
  // A kernel named like a C function (exp, pow) would call itself where it means the library.
  ir::Func renamed = func;
  renamed.name = "tsr." + func.name;
  return compile({renamed}, target, options, times);
}

}  // namespace tessera::codegen
