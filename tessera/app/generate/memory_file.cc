#include "tessera/app/generate/memory_file.h"

#include <algorithm>

#include "tessera/support/invalid.h"
#include "tessera/support/safetensors.h"

namespace tessera::app {
namespace {

constexpr const char *kTokens = "tokens", *kModel = "tessera.model";

}  // namespace

Result<void> save_memory(const std::string& path, const Decoder& decoder,
                         const std::vector<std::int32_t>& tokens, const std::string& model) {
  NamedTensors all = decoder.memory();
  HostTensor ids(DType::kI32, {std::ssize(tokens)});
  std::ranges::copy(tokens, ids.as<std::int32_t>());
  all.push_back({kTokens, std::move(ids)});
  return write_safetensors(path, all, {{kModel, model}});
}

Result<std::vector<std::int32_t>> load_memory(const std::string& path, Decoder& decoder,
                                              const std::string& model) {
  TESSERA_TRY(const Safetensors file, read_safetensors(path));
  const auto of = file.metadata.find(kModel);
  const auto ids = std::ranges::find(file.tensors, kTokens, &NamedTensor::name);
  if (of == file.metadata.end() || ids == file.tensors.end() ||
      ids->tensor.dtype() != DType::kI32 || ids->tensor.shape().size() != 1)
    return invalid("{}: not what --save-cache writes", path);
  if (of->second != model) return invalid("{}: of another model", path);
  const auto* begin = ids->tensor.as<std::int32_t>();
  std::vector<std::int32_t> tokens(begin, begin + ids->tensor.size());
  if (const Result<void> restored = decoder.restore(file.tensors, std::ssize(tokens));
      !restored.ok())
    return restored.error().with_context(path);
  return tokens;
}

}  // namespace tessera::app
