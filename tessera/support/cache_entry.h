// Large answers of a DiskCache: written in parts, read in place.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/disk_cache.h"
#include "tessera/support/mapped_file.h"

namespace tessera {

// An answer in the file that it lies in, which may be removed meanwhile.
struct CacheEntry {
  static constexpr std::size_t kAlignment = 64;  // of the answer's first byte

  MappedFile file;
  std::string_view answer;  // valid while `file` lives
};

// As DiskCache::find.
std::optional<CacheEntry> open_entry(const DiskCache& cache, const std::string& key);
// As DiskCache::store; the answer is the parts one after the other.
Result<void> store_entry(const DiskCache& cache, const std::string& key,
                         const std::vector<std::string_view>& parts);

}  // namespace tessera
