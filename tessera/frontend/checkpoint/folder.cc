#include "tessera/frontend/checkpoint/folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tessera/frontend/checkpoint/config.h"
#include "tessera/frontend/checkpoint/json_file.h"
#include "tessera/frontend/checkpoint/names.h"
#include "tessera/support/invalid.h"
#include "tessera/support/mapped_file.h"
#include "tessera/support/safetensors_index.h"

namespace tessera::checkpoint {
namespace {

using nlohmann::json;

constexpr const char *kConfig = "config.json", *kWhole = "model.safetensors",
                     *kIndex = "model.safetensors.index.json", *kGenAi = "genai_config.json";

// Numbers of a GGUF file.
const gguf::BlockType* block_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return gguf::find_block_type(0);
    case DType::kF16:
      return gguf::find_block_type(1);
    case DType::kBF16:
      return gguf::find_block_type(30);
    default:
      return nullptr;
  }
}

// A safetensors file, and which of its tensors are taken.
struct Shard {
  std::string name;
  std::string_view bytes;
  std::set<std::string, std::less<>> wanted;  // empty: all
};

class FolderReader {
 public:
  FolderReader(Config config, Parts* parts)
      : config_(std::move(config)), parts_(*parts), names_(config_.family, config_.norms_around) {}

  Result<void> read(const Shard& shard) {
    Result<SafetensorsIndex> index = index_safetensors(shard.bytes);
    if (!index.ok()) return index.error().with_context(shard.name);
    std::size_t found = 0;
    for (SafetensorsEntry& entry : index->tensors) {
      if (!shard.wanted.empty() && !shard.wanted.contains(entry.name)) continue;
      ++found;
      if (const Result<void> taken = take(std::move(entry)); !taken.ok())
        return taken.error().with_context(shard.name);
    }
    if (found < shard.wanted.size()) {
      return invalid("{}: {} of the tensors that {} places here are missing", shard.name,
                     shard.wanted.size() - found, kIndex);
    }
    return {};
  }

  const Names& names() const { return names_; }

 private:
  Result<void> take(SafetensorsEntry entry) {
    // Buffers of old versions, and what a table of tokens makes superfluous.
    if (entry.name.ends_with("rotary_emb.inv_freq")) return {};
    if (config_.tied && entry.name == "lm_head.weight") return {};
    const gguf::BlockType* type = block_type(entry.dtype);
    if (type == nullptr) {
      return make_error(ErrorCode::kUnsupported, "tensor '{}' has elements of type {}", entry.name,
                        to_text(entry.dtype));
    }
    std::string name = names_.to_gguf(entry.name);
    if (name.empty()) {
      return make_error(ErrorCode::kUnsupported, "tensor '{}', of which nothing is known in {}",
                        entry.name, config_.family);
    }
    const bool moved = config_.norms_from_one && name.ends_with("norm.weight");
    gguf::Tensor tensor{parts_.keep(std::move(name)), type, std::move(entry.shape), entry.bytes};
    if (moved) {
      TESSERA_TRY(const HostTensor wide, gguf::widened(tensor));
      std::vector<float> values(wide.as<float>(), wide.as<float>() + wide.size());
      for (float& v : values) v += 1;
      parts_.add(std::string(tensor.name), tensor.shape, values);
    } else {
      parts_.tensors.push_back(std::move(tensor));
    }
    return {};
  }

  Config config_;
  Parts& parts_;
  Names names_;
};

// What the tensors lie in, and what was made of them.
struct Kept {
  std::vector<MappedFile> files;
  std::shared_ptr<const void> bytes;
  Parts parts;
};

Result<gguf::File> read_all(std::string_view config, const std::string& config_name,
                            const std::vector<Shard>& shards, std::shared_ptr<Kept> kept,
                            std::string name) {
  TESSERA_TRY(Config read, read_config(config, config_name, &kept->parts));
  const bool tied = read.tied;
  FolderReader reader(std::move(read), &kept->parts);
  for (const Shard& shard : shards) TESSERA_DO(reader.read(shard));
  const auto is_head = [](const gguf::Tensor& t) { return t.name == "output.weight"; };
  if (!tied && std::ranges::none_of(kept->parts.tensors, is_head))
    return invalid("{}: there is no tensor 'lm_head.weight'", name);
  gguf::Contents contents;
  contents.name = std::move(name);
  contents.metadata = std::move(kept->parts.metadata);
  contents.tensors = std::move(kept->parts.tensors);
  contents.spelled = [names = reader.names()](std::string_view n) { return names.to_config(n); };
  contents.owner = std::move(kept);
  return gguf::File::of(std::move(contents));
}

std::string inside(const std::string& folder, std::string_view name) {
  return fmt::format("{}/{}", folder, name);
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// Shards by their names, with the tensors that are in each.
Result<std::map<std::string, std::set<std::string, std::less<>>>> read_index(
    const std::string& path) {
  TESSERA_TRY(const json index, read_object(path));
  const json& places = member(index, "weight_map");
  if (!places.is_object() || places.empty())
    return invalid("{}: 'weight_map' names no tensors", path);
  std::map<std::string, std::set<std::string, std::less<>>> out;
  for (const auto& [tensor, file] : places.items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!name.ends_with(".safetensors") || name.find('/') != std::string::npos)
      return invalid("{}: '{}' is in no safetensors file of this folder", path, tensor);
    out[name].insert(tensor);
  }
  return out;
}

Result<std::map<std::string, std::set<std::string, std::less<>>>> shards_of(
    const std::string& folder) {
  std::map<std::string, std::set<std::string, std::less<>>> out;
  if (exists(inside(folder, kWhole))) {
    out[kWhole] = {};
    return out;
  }
  if (exists(inside(folder, kIndex))) return read_index(inside(folder, kIndex));
  return make_error(ErrorCode::kUnsupported, "{}: neither {} nor {} is there", folder, kWhole,
                    kIndex);
}

// Folders of ONNX Runtime GenAI have an ONNX decoder instead of safetensors.
bool has_onnx_decoder(const std::string& folder) {
  return exists(inside(folder, kGenAi)) && !exists(inside(folder, kWhole)) &&
         !exists(inside(folder, kIndex));
}

Error onnx_decoder_refused(const std::string& folder) {
  const Result<json> config = read_object(inside(folder, kGenAi));
  if (!config.ok()) return config.error();
  const json& name = member(member(member(*config, "model"), "decoder"), "filename");
  return make_error(ErrorCode::kUnsupported,
                    "{}: {} names an ONNX decoder{}, which can be compiled and run by itself; text "
                    "is generated from GGUF files, and folders with {} and safetensors",
                    folder, kGenAi, name.is_string() ? " " + name.dump() : "", kConfig);
}

}  // namespace

Result<gguf::File> open_folder(const std::string& path) {
  if (has_onnx_decoder(path)) return onnx_decoder_refused(path);
  if (!exists(inside(path, kConfig))) return invalid("{}: a folder without config.json", path);
  TESSERA_TRY(const MappedFile config, MappedFile::open(inside(path, kConfig)));
  TESSERA_TRY(auto places, shards_of(path));
  auto kept = std::make_shared<Kept>();
  std::vector<Shard> shards;
  for (auto& [name, tensors] : places) {
    TESSERA_TRY(MappedFile file, MappedFile::open(inside(path, name)));
    shards.push_back({inside(path, name), file.bytes(), std::move(tensors)});
    kept->files.push_back(std::move(file));
  }
  return read_all(config.bytes(), inside(path, kConfig), shards, std::move(kept), path);
}

Result<std::vector<std::string>> folder_files(const std::string& path) {
  TESSERA_TRY(const auto places, shards_of(path));
  std::vector<std::string> out = {inside(path, kConfig)};
  if (!places.contains(kWhole)) out.push_back(inside(path, kIndex));
  for (const auto& [name, tensors] : places) out.push_back(inside(path, name));
  return out;
}

Result<gguf::File> parse_folder(std::string_view config, std::string_view safetensors,
                                std::shared_ptr<const void> owner, std::string name) {
  auto kept = std::make_shared<Kept>();
  kept->bytes = std::move(owner);
  const std::vector<Shard> shards = {{kWhole, safetensors, {}}};
  return read_all(config, kConfig, shards, std::move(kept), std::move(name));
}

}  // namespace tessera::checkpoint
