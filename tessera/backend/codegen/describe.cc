#include <algorithm>

#include "tessera/backend/codegen/back_ends.h"
#include "tessera/machine/target/waiting.h"

namespace tessera::codegen {
namespace {

using runtime::BinaryKind;

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
    info.waits = target::kernels_wait(target);
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

}  // namespace tessera::codegen
