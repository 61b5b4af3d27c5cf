// Arbitrary bytes as a safetensors file: an Error, or tensors whose layout is accepted again.
#include <cstdint>
#include <string_view>

#include "tessera/support/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;  // NOLINT(google-build-using-namespace)
  const auto file = parse_safetensors({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) return 0;
  std::uint64_t bytes = 0;
  for (const NamedTensor& t : file->tensors) bytes += t.tensor.bytes();
  if (bytes > size) __builtin_trap();
  const auto layout = lay_out_safetensors(file->tensors, file->metadata);
  if (!layout.ok()) return 0;  // names that its padding uses
  std::string again = layout->header;
  for (std::size_t i = 0; i < file->tensors.size(); ++i) {
    const HostTensor& t = file->tensors[i].tensor;
    again.resize(layout->offsets[i], '\0');
    again.append(static_cast<const char*>(t.data()), t.bytes());
  }
  again.resize(layout->bytes, '\0');
  if (!parse_safetensors(again).ok()) __builtin_trap();
  return 0;
}
