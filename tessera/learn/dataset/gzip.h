// Compressed files of lines, the same bytes for the same text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/support/result.h"

namespace tessera::dataset {

std::string gzip(std::string_view text);
// kIo: damaged, or more than `most_bytes`.
Result<std::string> gunzip(std::string_view bytes, std::size_t most_bytes);

// As zlib and gzip compute it.
std::uint32_t crc32_of(std::string_view bytes);

}  // namespace tessera::dataset
