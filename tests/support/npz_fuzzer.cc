// Arbitrary bytes as a zip archive of NumPy arrays, and as one array: an Error or tensors that can
// be written and read again, never a crash.
#include <cstdint>
#include <string_view>

#include "tessera/support/npz.h"
#include "tessera/support/zip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;  // NOLINT(google-build-using-namespace)
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto array = parse_npy(bytes); array.ok() && !parse_npy(npy_bytes(*array)).ok()) {
    __builtin_trap();
  }
  constexpr std::uint64_t kMost = 1 << 20;
  std::uint64_t total = 0;
  const auto entries = parse_zip(bytes, kMost);
  if (entries.ok()) {
    for (const ZipEntry& entry : *entries) total += entry.bytes.size();
    if (total > kMost) __builtin_trap();
    for (const bool compress : {false, true}) {
      const auto again = parse_zip(zip_bytes(*entries, {.compress = compress}), kMost);
      if (!again.ok() || again->size() != entries->size()) __builtin_trap();
    }
    (void)parse_npz(bytes);
  }
  if (const auto views = view_npz(bytes); views.ok()) {
    for (const NpyView& view : *views) {
      const auto* first = static_cast<const char*>(view.data);
      const auto length = static_cast<std::size_t>(elements(view.shape) * size_bytes(view.dtype));
      if (length > 0 && (first < bytes.data() || first + length > bytes.data() + size)) {
        __builtin_trap();
      }
    }
  }
  return 0;
}
