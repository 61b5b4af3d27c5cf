// Arbitrary bytes as entries of the cache whose checksums are right: a kernel, and a whole model.
// Nothing of them is called.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <unistd.h>

#include "tessera/backend/exec/prepared_model.h"
#include "tessera/backend/kernel/kernel_cache.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;  // NOLINT(google-build-using-namespace)
  static const std::string folder = "/dev/shm/tessera_cache_fuzzer." + std::to_string(::getpid());
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const DiskCache cache(folder, 1 << 24);
  if (!cache.store("key", bytes).ok()) return 0;
  (void)kernel::KernelCache(cache).find("key", target::host());
  (void)exec::find_prepared(cache, "key", "", target::host());
  return 0;
}
