// Zip archives as .npz files use them: stored or deflated entries, zip64, no encryption.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"

namespace tessera {

struct ZipEntry {
  std::string name;
  std::string bytes;
};

// Entries in the order of the archive's directory, their checksums compared.
Result<std::vector<ZipEntry>> parse_zip(std::string_view archive);

struct ZipOptions {
  bool compress = false;
  bool zip64 = false;  // 64-bit fields also where 32 bits are enough
};

std::string zip_bytes(const std::vector<ZipEntry>& entries, const ZipOptions& options = {});

}  // namespace tessera
