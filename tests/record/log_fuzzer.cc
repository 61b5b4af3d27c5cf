// Arbitrary text as lines of logs, ours and those of other programs: an Error or a record, which is
// written and read again.
#include <cstdint>
#include <string_view>

#include "tessera/trials/record/ansor_log.h"
#include "tessera/trials/record/autotvm_log.h"
#include "tessera/trials/record/log_file.h"
#include "tessera/trials/record/row.h"

namespace {

using namespace tessera::record;  // NOLINT(google-build-using-namespace)

void read_line(std::string_view line) {
  (void)detect_format(line);
  if (const auto record = parse_ansor_line(line); record.ok()) {
    const auto steps = ansor::parse_steps(record->candidate);
    if (steps.ok() && !ansor::parse_steps(ansor::to_json(*steps)).ok()) __builtin_trap();
    const auto back = to_ansor_line(*record);
    if (back.ok() && !parse_ansor_line(*back).ok()) __builtin_trap();
  }
  if (const auto record = parse_autotvm_line(line); record.ok()) {
    (void)autotvm::parse_config(record->candidate);
    const auto back = to_autotvm_line(*record);
    if (back.ok() && !parse_autotvm_line(*back).ok()) __builtin_trap();
  }
  (void)ansor::parse_steps(line);
  (void)autotvm::parse_config(line);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    read_line(text.substr(from, end - from));
    from = end + 1;
  }
  return 0;
}
