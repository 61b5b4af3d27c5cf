#include "tessera/backend/artifact/weights.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tessera/backend/artifact/digest.h"
#include "tessera/machine/runtime/device/device.h"
#include "tessera/support/safetensors.h"

namespace tessera::artifact {
namespace {

std::uint64_t alignment_of(const exec::CompiledModel& model) {
  return model.target.row().launches ? runtime::Device::kPartAlignment
                                     : runtime::AlignedBuffer::kAlignment;
}

std::string unique_name(std::string name, std::set<std::string>* used) {
  if (name.empty()) name = "constant";
  std::string candidate = name;
  for (int i = 1; !used->insert(candidate).second; ++i) candidate = fmt::format("{}#{}", name, i);
  return candidate;
}

Result<std::uint64_t> digest_of_file(const std::string& path, std::size_t bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* mapping = file < 0 ? MAP_FAILED : ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  if (file >= 0) ::close(file);
  if (mapping == MAP_FAILED) {
    return make_error(ErrorCode::kIo, "cannot read {}: {}", path, std::strerror(error));
  }
  const std::uint64_t digest = tessera_artifact_digest(mapping, bytes);
  ::munmap(mapping, bytes);
  return digest;
}

}  // namespace

Result<Weights> write_weights(const exec::CompiledModel& model, const std::string& path) {
  Weights weights;
  if (model.constants.empty()) return weights;
  NamedTensors tensors;
  std::map<std::string, std::string> metadata = {{"model", model.name}};
  std::set<std::string> used = {"__metadata__"};
  for (std::size_t i = 0; i < model.constants.size(); ++i) {
    const exec::CompiledModel::ConstantName& origin = model.constant_names[i];
    const std::string name = unique_name(origin.value, &used);
    if (!origin.layout.empty()) metadata["layout:" + name] = origin.layout;
    tensors.push_back({name, model.constants[i]});
  }
  const std::uint64_t alignment = alignment_of(model);
  TESSERA_TRY(const SafetensorsLayout layout, lay_out_safetensors(tensors, metadata, alignment));
  TESSERA_DO(write_safetensors(path, tensors, metadata, alignment));
  weights.offsets = layout.offsets;
  weights.bytes = static_cast<std::int64_t>(layout.bytes);
  TESSERA_TRY(weights.digest, digest_of_file(path, layout.bytes));
  return weights;
}

Weights pack_weights(const exec::CompiledModel& model, runtime::AlignedBuffer* buffer) {
  Weights weights;
  const std::uint64_t alignment = alignment_of(model);
  std::uint64_t bytes = 0;
  for (const HostTensor& t : model.constants) {
    weights.offsets.push_back(bytes);
    bytes += (t.bytes() + alignment - 1) / alignment * alignment;
  }
  *buffer = runtime::AlignedBuffer(bytes);
  for (std::size_t i = 0; i < weights.offsets.size(); ++i) {
    const HostTensor& t = model.constants[i];
    if (t.bytes() > 0) std::memcpy(buffer->data() + weights.offsets[i], t.data(), t.bytes());
  }
  weights.bytes = static_cast<std::int64_t>(bytes);
  return weights;
}

}  // namespace tessera::artifact
