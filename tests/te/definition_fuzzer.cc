// Arbitrary text as the definition of a task and as the name of an operation: an Error, or what is
// written and read again as the same text.
#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/lang/te/canonical.h"
#include "tessera/lang/te/dag.h"
#include "tessera/lang/te/op_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::te;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto dag = dag_from_text(text); dag.ok()) {
    const std::string written = to_text(*dag);
    const auto again = dag_from_text(written);
    if (!again.ok() || to_text(*again) != written) __builtin_trap();
    if (dag->ops.size() <= 8) (void)canonicalize(*dag);
  }
  (void)parse_op_spec(text);
  return 0;
}
