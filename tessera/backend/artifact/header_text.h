// The C header of an artifact.
#pragma once

#include <string>

#include "tessera/backend/artifact/metadata.h"

namespace tessera::artifact {

// `text` as a C identifier: other characters become '_'; never empty, no leading digit.
std::string identifier(const std::string& text);

std::string header_text(const Metadata& metadata);

}  // namespace tessera::artifact
