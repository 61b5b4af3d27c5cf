// A row may come from anyone: no text may crash, and what is accepted reads back as it is.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tessera/machine/target/machine_row.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::target;  // NOLINT(google-build-using-namespace)
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto row = machine_row_from_json(text, "fuzz");
  if (!row.ok()) {
    if (row.error().message.empty()) std::abort();
    return 0;
  }
  const std::string written = to_json(*row);
  const auto again = machine_row_from_json(written, "fuzz");
  if (!again.ok() || to_json(*again) != written) std::abort();
  return 0;
}
