// Files that the build put into the program.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/machine/target/target.h"

namespace tessera::artifact {

struct EmbeddedFile {
  std::string_view name, bytes;
};

// abi.h and types.h, and the objects of the C runtime.
const std::vector<EmbeddedFile>& embedded_files();

// Empty: there is none of that name.
std::string_view embedded_file(std::string_view name);

// The C runtime of artifacts for this kind of device, compiled for a library of this architecture.
// Empty: there was no compiler for it when Tessera was built.
std::string_view runtime_object(target::Kind kind, target::Arch arch);

}  // namespace tessera::artifact
