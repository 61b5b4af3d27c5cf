// Whether what a command will write in the end can be written, asked before it spends time.
#pragma once

#include <string>

#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"

namespace tessera::cli {

// A file, as support/files.h writes it: kIo with the reason.
Result<void> check_output_file(const std::string& path);

// The folder of an artifact, and the C compiler that makes its library.
Result<void> check_output_artifact(const std::string& folder, const target::Target& target);

}  // namespace tessera::cli
