// Finds one section in a relocatable, shared or static library.
#pragma once

#include <string>
#include <string_view>

#include "tessera/support/result.h"

namespace tessera::artifact {

// The bytes of the first section of that name. `file` is a little-endian ELF64 file or an ar
// archive of such. kInvalidArgument: neither, cut off, or without the section.
Result<std::string_view> find_section(std::string_view file, std::string_view section);

// Section headers stand at the end of a library. kInvalidArgument: the ELF64 file at `path` ends
// before them; loading it would end the process by a signal.
Result<void> check_whole(const std::string& path);

}  // namespace tessera::artifact
