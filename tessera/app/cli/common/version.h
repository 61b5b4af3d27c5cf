// What program this is.
#pragma once

#include <string>

namespace tessera::cli {

// "0.1.0 (1a2b3c4d5e)"; without the commit where it was not built from a repository.
std::string version_text();

}  // namespace tessera::cli
