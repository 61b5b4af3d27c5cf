// Arbitrary bytes as what tuners and agents tell each other: an Error, or what is written and read
// again as the same text.
#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/trials/fleet/work.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::fleet;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto same = [](const auto& read, auto again) {
    if (!read.ok()) return;
    const std::string written = to_text(*read);
    const auto second = again(written);
    if (!second.ok() || to_text(*second) != written) __builtin_trap();
  };
  same(work_from_text(text), work_from_text);
  same(batch_from_text(text), batch_from_text);
  same(result_from_text(text), result_from_text);
  (void)reason_of_refusal(text);
  return 0;
}
