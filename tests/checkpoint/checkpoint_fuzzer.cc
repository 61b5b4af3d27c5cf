// Arbitrary bytes as a config.json and, behind a zero byte, a safetensors file: an Error, or a file
// whose tensors lie inside it, of which a decoder is written or refused.
#include <cstdint>
#include <memory>
#include <string>

#include "tessera/frontend/checkpoint/folder.h"
#include "tessera/frontend/gguf/to_model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;  // NOLINT(google-build-using-namespace)
  const auto bytes = std::make_shared<const std::string>(reinterpret_cast<const char*>(data), size);
  const std::string_view all = *bytes;
  const std::size_t zero = all.find('\0');
  if (zero == std::string_view::npos) return 0;
  const auto file = checkpoint::parse_folder(all.substr(0, zero), all.substr(zero + 1), bytes, "f");
  if (!file.ok()) return 0;
  for (const gguf::Tensor& tensor : file->tensors()) {
    const auto wide = gguf::widened(tensor);
    if (!wide.ok() || wide->size() != tensor.size()) __builtin_trap();
  }
  const auto model = gguf::to_model(*file, gguf::Values::kLeft);
  if (model.ok() && model->graph.nodes.empty()) __builtin_trap();
  return 0;
}
