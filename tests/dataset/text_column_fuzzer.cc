// Arbitrary bytes as a column of texts: an Error, or texts that can be packed and read again. The
// same bytes as lines of texts: packed, they come back.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/learn/dataset/text_column.h"

namespace {

constexpr std::size_t kMost = 1 << 20;

void same_again(const std::vector<std::string>& texts) {
  const auto packed = tessera::dataset::pack_texts(texts);
  if (!packed.ok()) return;  // control characters
  const auto again = tessera::dataset::unpack_texts(*packed, 2 * kMost);
  if (!again.ok() || *again != texts) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto texts = tessera::dataset::unpack_texts(bytes, kMost); texts.ok()) {
    same_again(*texts);
  }
  std::vector<std::string> lines;
  for (std::size_t from = 0; from <= bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', from), bytes.size());
    lines.emplace_back(bytes.substr(from, end - from));
    from = end + 1;
  }
  same_again(lines);
  return 0;
}
