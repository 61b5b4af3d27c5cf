#include "tessera/backend/artifact/embedded_files.h"

#include <fmt/format.h>

namespace tessera::artifact {

std::string_view embedded_file(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.name == name) return file.bytes;
  }
  return {};
}

std::string_view runtime_object(target::Kind kind, target::Arch arch) {
  const char* device = kind == target::Kind::kCpu    ? "cpu"
                       : kind == target::Kind::kCuda ? "cuda"
                                                     : "opencl";
  return embedded_file(
      fmt::format("{}_{}.o", device, arch == target::Arch::kX86_64 ? "x86_64" : "aarch64"));
}

}  // namespace tessera::artifact
