// Whole files in and out, with the reason in the error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"

namespace tessera {

// kIo: absent, a folder, unreadable; the message names the path.
Result<std::string> read_file(const std::string& path);

// The parts one after the other. A new or regular file is written beside the path and renamed, so
// that the old content stays when it fails; anything else (a pipe, a device) is written in place.
Result<void> write_file(const std::string& path, const std::vector<std::string_view>& parts);

}  // namespace tessera
