#include "tessera/backend/artifact/weights.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
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

// Where a tensor with the same bytes stands, or nothing; then it is to be added at the end.
std::optional<std::size_t> find_same(const HostTensor& tensor, const NamedTensors& tensors,
                                     std::multimap<std::uint64_t, std::size_t>* written) {
  const std::uint64_t digest = tessera_artifact_digest(tensor.data(), tensor.bytes());
  const auto [begin, end] = written->equal_range(digest);
  for (auto at = begin; at != end; ++at) {
    const HostTensor& other = tensors[at->second].tensor;
    if (other.dtype() == tensor.dtype() && other.shape() == tensor.shape() &&
        std::memcmp(other.data(), tensor.data(), tensor.bytes()) == 0)
      return at->second;
  }
  written->emplace(digest, tensors.size());
  return std::nullopt;
}

}  // namespace

Result<Weights> write_weights(const exec::CompiledModel& model, const std::string& path) {
  TESSERA_TRY(std::vector<Weights> weights, write_shared_weights({&model}, path));
  return std::move(weights[0]);
}

Result<std::vector<Weights>> write_shared_weights(
    const std::vector<const exec::CompiledModel*>& models, const std::string& path) {
  NamedTensors tensors;
  std::map<std::string, std::string> metadata = {{"model", models[0]->name}};
  std::set<std::string> used = {"__metadata__"};
  std::multimap<std::uint64_t, std::size_t> written;  // by digest
  std::vector<std::vector<std::size_t>> places(models.size());
  for (std::size_t m = 0; m < models.size(); ++m) {
    for (std::size_t i = 0; i < models[m]->constants.size(); ++i) {
      const HostTensor& tensor = models[m]->constants[i];
      std::optional<std::size_t> place;
      if (models.size() > 1) place = find_same(tensor, tensors, &written);
      if (!place) {
        const exec::CompiledModel::ConstantName& origin = models[m]->constant_names[i];
        const std::string name = unique_name(origin.value, &used);
        if (!origin.layout.empty()) metadata["layout:" + name] = origin.layout;
        place = tensors.size();
        tensors.push_back({name, tensor});
      }
      places[m].push_back(*place);
    }
  }
  std::vector<Weights> weights(models.size());
  if (tensors.empty()) return weights;
  const std::uint64_t alignment = alignment_of(*models[0]);
  TESSERA_TRY(const SafetensorsLayout layout, lay_out_safetensors(tensors, metadata, alignment));
  TESSERA_DO(write_safetensors(path, tensors, metadata, alignment));
  TESSERA_TRY(const std::uint64_t digest, digest_of_file(path, layout.bytes));
  for (std::size_t m = 0; m < models.size(); ++m) {
    for (const std::size_t place : places[m]) weights[m].offsets.push_back(layout.offsets[place]);
    weights[m].bytes = static_cast<std::int64_t>(layout.bytes);
    weights[m].digest = digest;
  }
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
