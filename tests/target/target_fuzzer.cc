// Any text may arrive as a target name, a feature string or a sysfs list: none of it may crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/features.h"
#include "tessera/machine/target/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::target;  // NOLINT(google-build-using-namespace)
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto found = find_target(text); !found.ok() && found.error().message.empty())
    std::abort();
  if (count_cpu_list(text) < 0) std::abort();
  for (const std::string_view name : present_features(text)) {
    if (!has_feature(text, name)) std::abort();
  }
  return 0;
}
