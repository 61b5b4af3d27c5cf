// Arbitrary bytes as object code: an Error or a loaded object, never a crash. Nothing of it runs.
#include <cstdint>
#include <string_view>

#include "tessera/machine/runtime/object_loader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;  // NOLINT(google-build-using-namespace)
  const std::string_view object(reinterpret_cast<const char*>(data), size);
  for (const target::Arch arch : {target::Arch::kX86_64, target::Arch::kAArch64}) {
    (void)runtime::check_object(object, arch, "kernel");
  }
  if (const auto loaded = runtime::load_object(object); loaded.ok()) {
    (void)(*loaded)->symbol("kernel");
  }
  return 0;
}
