// Arbitrary bytes as a GGUF file: an Error, or tensors that lie inside it and can be widened, of
// which a decoder is written or refused.
#include <cstdint>
#include <memory>
#include <string>

#include "tessera/frontend/gguf/file.h"
#include "tessera/frontend/gguf/to_model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;  // NOLINT(google-build-using-namespace)
  const auto bytes = std::make_shared<const std::string>(reinterpret_cast<const char*>(data), size);
  const auto file = gguf::File::parse(*bytes, bytes, "f");
  if (!file.ok()) return 0;
  std::size_t taken = 0;
  for (const gguf::Tensor& tensor : file->tensors()) {
    taken += tensor.bytes.size();
    if (!tensor.type->readable()) continue;
    const auto wide = gguf::widened(tensor);
    if (!wide.ok() || wide->size() != tensor.size()) __builtin_trap();
  }
  if (taken > size) __builtin_trap();
  for (const gguf::Values values : {gguf::Values::kRead, gguf::Values::kLeft}) {
    const auto model = gguf::to_model(*file, values);
    if (model.ok() && model->graph.nodes.empty()) __builtin_trap();
  }
  return 0;
}
