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
  return embedded_file(
      fmt::format("{}_{}.o", target::row_of(kind).name, target::row_of(arch).name));
}

}  // namespace tessera::artifact
