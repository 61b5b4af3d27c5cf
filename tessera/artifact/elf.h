// Finds one section in a relocatable, shared or static library.
#pragma once

#include <string_view>

#include "tessera/support/result.h"

namespace tessera::artifact {

// The bytes of the first section of that name. `file` is a little-endian ELF64 file or an ar
// archive of such. kInvalidArgument: neither, cut off, or without the section.
Result<std::string_view> find_section(std::string_view file, std::string_view section);

}  // namespace tessera::artifact
