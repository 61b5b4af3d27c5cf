// Zip archives as .npz files use them: stored or deflated entries, zip64, no encryption.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"

namespace tessera {

struct ZipEntry {
  std::string name;
  std::string bytes;
};

// An entry that is not compressed, where it lies in the archive.
struct ZipView {
  std::string name;
  std::string_view bytes;
};

// All entries without copying them. Their checksums are not compared. kUnsupported: one is
// compressed.
Result<std::vector<ZipView>> view_zip(std::string_view archive);

// What the entries of an archive may take together when they are unpacked.
inline constexpr std::uint64_t kMostZipBytes = std::uint64_t{8} << 30;

// Entries in the order of the archive's directory, their checksums compared. kUnsupported: they
// take more than `most_bytes`.
Result<std::vector<ZipEntry>> parse_zip(std::string_view archive,
                                        std::uint64_t most_bytes = kMostZipBytes);

struct ZipOptions {
  bool compress = false;
  bool zip64 = false;  // 64-bit fields also where 32 bits are enough
  // Data of stored entries starts at a multiple of this (a power of two, at most 4096).
  std::size_t alignment = 1;
};

std::string zip_bytes(const std::vector<ZipEntry>& entries, const ZipOptions& options = {});

}  // namespace tessera
