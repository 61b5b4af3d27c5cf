// The file by which CMake finds an artifact.
#pragma once

#include <string>

#include "tessera/backend/artifact/metadata.h"

namespace tessera::artifact {

std::string cmake_config_name(const Metadata& m);  // "mlpConfig.cmake"
// Gives the target NAME::NAME: library, header and what linking it needs. The folder may be moved.
std::string cmake_config_text(const Metadata& m);

}  // namespace tessera::artifact
