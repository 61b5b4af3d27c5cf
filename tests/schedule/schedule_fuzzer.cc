// Arbitrary text as steps of a schedule and as a layout: an Error, or what is written and read
// again as the same text; steps are applied to a product.
#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/schedule/state.h"
#include "tessera/scheduling/schedule/step.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;            // NOLINT(google-build-using-namespace)
  using namespace tessera::schedule;  // NOLINT(google-build-using-namespace)
  static const te::Dag dag = te::make_dag(te::parse_op_spec("matmul:M=8,N=8,K=8").value()).value();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto steps = schedule_from_text(text); steps.ok()) {
    const std::string written = to_text(*steps);
    const auto again = schedule_from_text(written);
    if (!again.ok() || to_text(*again) != written) __builtin_trap();
    if (steps->steps.size() <= 32) (void)apply(dag, *steps);
  }
  if (const auto layout = layout_from_text(text); layout.ok()) {
    const auto again = layout_from_text(to_text(*layout));
    if (!again.ok() || to_text(*again) != to_text(*layout)) __builtin_trap();
  }
  return 0;
}
