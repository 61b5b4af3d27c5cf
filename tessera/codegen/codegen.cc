#include "tessera/codegen/codegen.h"

#include <algorithm>
#include <array>

#include "tessera/codegen/back_ends.h"

namespace tessera::codegen {
namespace {

using runtime::BinaryKind;

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

std::string symbol_of(const ir::Launch& launch, std::size_t index) {
  std::string name = fmt::format("tsr{}_{}", index, launch.name);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain) c = '_';
  }
  return name;
}

}  // namespace

Result<Binary> describe(const ir::DeviceProgram& program, const target::Target& target,
                        BinaryKind kind) {
  Binary binary;
  binary.kind = kind;
  binary.target = target;
  binary.parameters = static_cast<int>(program.params.size());
  std::vector<ir::Buffer> memory = program.params;
  for (const ir::Buffer& b : program.temporaries) {
    memory.push_back(b);
    binary.temporaries.push_back(b.size() * size_bytes(b->dtype));
  }
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    const ir::Launch& launch = program.launches[i];
    runtime::LaunchInfo info{symbol_of(launch, i), launch.grid, launch.block};
    for (const ir::Buffer& b : launch.params) {
      const auto found = std::find(memory.begin(), memory.end(), b);
      if (found == memory.end()) {
        return make_error(ErrorCode::kBuildFailed, "{}: buffer {} is not of the program",
                          launch.name, b->name);
      }
      info.arguments.push_back(static_cast<int>(found - memory.begin()));
    }
    binary.launches.push_back(std::move(info));
  }
  return binary;
}

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

Result<Binary> compile_kernel(const ir::Func& func, const target::Target& target,
                              const CodegenOptions& options, CodegenTimes* times) {
  // A kernel named like a C function (exp, pow) would call itself where it means the library.
  ir::Func renamed = func;
  renamed.name = "tsr." + func.name;
  return compile({renamed}, target, options, times);
}

}  // namespace tessera::codegen
