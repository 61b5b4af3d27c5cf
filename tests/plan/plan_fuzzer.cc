// Arbitrary text as a plan: an Error, or a plan that is written and read again as it is.
#include <cstdint>
#include <string>

#include "tessera/frontend/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::plan;  // NOLINT(google-build-using-namespace)
  const auto plan = plan_from_json(std::string(reinterpret_cast<const char*>(data), size));
  if (!plan.ok()) {
    if (plan.error().message.empty()) __builtin_trap();
    return 0;
  }
  const std::string text = to_json(*plan);
  const auto again = plan_from_json(text);
  if (!again.ok() || to_json(*again) != text) __builtin_trap();
  return 0;
}
