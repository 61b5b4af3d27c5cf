// Code of kernels that were built before, kept on disk.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/backend/codegen/codegen.h"
#include "tessera/backend/kernel/build_kernel.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/disk_cache.h"

namespace tessera::kernel {

class KernelCache {
 public:
  explicit KernelCache(DiskCache disk) : disk_(std::move(disk)) {}
  const DiskCache& disk() const { return disk_; }

  // Everything that the code follows from: this very build of the compiler, the machine, what is
  // computed (te::to_text) and how. `schedule`: its text; empty is the one that this build takes
  // by default. Empty when the program has no build id: then nothing can be kept.
  static std::string key(const target::Target& target, const codegen::CodegenOptions& options,
                         const std::string& definition, const std::string& schedule);

  // `target` is that of the key.
  std::optional<Kernel> find(const std::string& key, const target::Target& target) const;
  // A cache that cannot be written is as good as none: failures are ignored.
  void store(const std::string& key, const Kernel& kernel) const;

 private:
  DiskCache disk_;
};

// Bytes of the disk that a folder lies on, or will when it is made. Nothing where that is unknown.
struct DiskSpace {
  std::int64_t capacity = 0, available = 0;
};
std::optional<DiskSpace> disk_space(const std::string& folder);

// What a cache may take by default: a quarter of what is free and an eighth of the disk at most,
// but 4 GiB where that leaves as much for others.
std::int64_t default_limit(const DiskSpace& disk);

// The user's cache: $TESSERA_CACHE if it is a folder's path, else tessera/ in $XDG_CACHE_HOME or
// ~/.cache, of $TESSERA_CACHE_MB or default_limit. Null with TESSERA_CACHE=off, and where there is
// no place.
std::shared_ptr<const KernelCache> user_kernel_cache();

}  // namespace tessera::kernel
