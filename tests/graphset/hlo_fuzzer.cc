// Arbitrary bytes as protobufs of XLA and of its tuning: an Error or graphs, never a crash.
#include <cstdint>
#include <string_view>

#include "tessera/learn/graphset/hlo.h"
#include "tessera/learn/graphset/tuning_data.h"
#include "tessera/learn/graphset/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::graphset;  // NOLINT(google-build-using-namespace)
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto fields = wire_fields(bytes); fields.ok()) {
    for (const WireField& field : *fields) {
      std::vector<std::int64_t> numbers;
      (void)append_integers(field, &numbers);
    }
  }
  (void)parse_hlo(bytes);
  (void)convert_tuning_data(bytes);
  return 0;
}
