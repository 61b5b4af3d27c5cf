// Arbitrary text as a function or a program of a GPU: an Error, or what is written and read again
// as the same text.
#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/lang/ir/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::ir;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto func = parse_func(text); func.ok()) {
    const std::string written = to_text(*func);
    const auto again = parse_func(written);
    if (!again.ok() || to_text(*again) != written) __builtin_trap();
  }
  if (const auto program = parse_device_program(text); program.ok()) {
    const std::string written = to_text(*program);
    const auto again = parse_device_program(written);
    if (!again.ok() || to_text(*again) != written) __builtin_trap();
  }
  return 0;
}
