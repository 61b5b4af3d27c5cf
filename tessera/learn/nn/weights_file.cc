#include "tessera/learn/nn/weights_file.h"

#include <cmath>

#include "tessera/support/hash.h"

namespace tessera::nn {
namespace {

constexpr const char* kChecksum = "checksum";
constexpr std::string_view kPad = "_pad.", kHyper = "hyper.", kNote = "note.";

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

// Of everything but the checksum itself; the name and shape of a tensor count as well as its data.
std::string checksum(const Metadata& metadata, const NamedTensors& tensors) {
  std::uint64_t h = 0;
  for (const auto& [key, value] : metadata) {
    if (key == kChecksum) continue;
    h = hash_bytes(value, hash_bytes(key, h));
  }
  for (const NamedTensor& t : tensors) {
    h = hash_bytes(t.name + " " + to_text(t.tensor.shape()), h);
    h = hash_bytes({static_cast<const char*>(t.tensor.data()), t.tensor.bytes()}, h);
  }
  return to_hex(h);
}

// A file holds text in UTF-8 only; other bytes would not come back as they were.
Result<void> check_text(const Metadata& metadata) {
  TESSERA_TRY(const SafetensorsLayout layout, lay_out_safetensors({}, metadata));
  TESSERA_TRY(const Safetensors back, parse_safetensors(layout.header));
  if (back.metadata != metadata) return bad("a note or schema is not UTF-8 text");
  return {};
}

Result<void> check_format(const Metadata& metadata, const WeightsFormat& format) {
  const auto it = metadata.find("format");
  if (it == metadata.end() || it->second != format.name) {
    return bad("these tensors are not {} of Tessera", format.what);
  }
  TESSERA_TRY(const auto version, read_number<std::int64_t>(metadata, "version"));
  if (version != format.version) {
    return bad("version {} of the file format; this Tessera reads version {}", version,
               format.version);
  }
  return {};
}

// Without the tensors that only fill gaps.
Result<NamedTensors> drop_padding(NamedTensors tensors) {
  NamedTensors kept;
  for (NamedTensor& t : tensors) {
    if (!t.name.starts_with(kPad)) {
      kept.push_back(std::move(t));
      continue;
    }
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(t.tensor.bytes()); ++i) {
      if (t.tensor.as<char>()[i] != 0) return damaged_file("padding is not zero");
    }
  }
  return kept;
}

}  // namespace

Error damaged_file(const std::string& reason) {
  return make_error(ErrorCode::kIo, "damaged: {}", reason);
}

Result<std::string> read_word(const Metadata& metadata, const std::string& key) {
  const auto it = metadata.find(key);
  if (it == metadata.end()) return damaged_file(key + " is missing");
  return it->second;
}

void add_hyper_and_notes(const Hyper& hyper, const Metadata& notes, Metadata* metadata) {
  for (const auto& [name, value] : hyper) {
    (*metadata)[std::string(kHyper) + name] = std::to_string(value);
  }
  for (const auto& [name, text] : notes) (*metadata)[std::string(kNote) + name] = text;
}

Result<void> read_hyper_and_notes(const Metadata& metadata, Hyper* hyper, Metadata* notes) {
  for (const auto& [key, text] : metadata) {
    if (key.starts_with(kNote)) (*notes)[key.substr(kNote.size())] = text;
    if (!key.starts_with(kHyper)) continue;
    TESSERA_TRY((*hyper)[key.substr(kHyper.size())], read_number<std::int64_t>(metadata, key));
  }
  return {};
}

NamedTensor vector_tensor(const std::string& name, const std::vector<float>& values) {
  HostTensor tensor(DType::kF32, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as<float>());
  return {name, std::move(tensor)};
}

Result<std::vector<float>> take_vector(const std::string& name,
                                       std::map<std::string, HostTensor>* weights) {
  const auto it = weights->find(name);
  if (it == weights->end()) return damaged_file(name + " is missing");
  const HostTensor tensor = std::move(it->second);
  weights->erase(it);
  if (tensor.dtype() != DType::kF32 || tensor.shape().size() != 1) {
    return bad("{} is {} {}, not a vector of f32", name, to_text(tensor.dtype()),
               to_text(tensor.shape()));
  }
  return std::vector<float>(tensor.as<float>(), tensor.as<float>() + tensor.size());
}

bool all_finite(const float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return false;
  }
  return true;
}

Result<void> check_weights(const std::string& name, const std::vector<Parameter>& parameters,
                           const std::map<std::string, HostTensor>& weights) {
  for (const Parameter& p : parameters) {
    const auto it = weights.find(p.name);
    if (it == weights.end()) return bad("weight {} of network {} is missing", p.name, name);
    const HostTensor& w = it->second;
    if (w.dtype() != DType::kF32 || w.shape() != p.shape) {
      return bad("weight {} is {} {}, network {} needs f32 {}", p.name, to_text(w.dtype()),
                 to_text(w.shape()), name, to_text(p.shape));
    }
    if (!all_finite(w.as<float>(), w.size())) {
      return bad("weight {} has values that are not finite", p.name);
    }
  }
  if (weights.size() == parameters.size()) return {};
  for (const auto& [weight, tensor] : weights) {
    bool known = false;
    for (const Parameter& p : parameters) known = known || p.name == weight;
    if (!known) return bad("network {} has no weight {}", name, weight);
  }
  return {};
}

Result<void> write_weights(const std::string& path, const WeightsFormat& format, Metadata metadata,
                           const NamedTensors& tensors) {
  metadata["format"] = format.name;
  metadata["version"] = std::to_string(format.version);
  if (auto text = check_text(metadata); !text.ok()) return text.error().with_context(path);
  metadata[kChecksum] = checksum(metadata, tensors);
  return write_safetensors(path, tensors, metadata);
}

Result<Safetensors> read_weights(const std::string& path, const WeightsFormat& format) {
  Result<Safetensors> file = read_safetensors(path);
  if (!file.ok()) return Error{ErrorCode::kIo, file.error().message};
  TESSERA_DO(check_format(file->metadata, format));
  TESSERA_TRY(file->tensors, drop_padding(std::move(file->tensors)));
  TESSERA_TRY(const std::string expected, read_word(file->metadata, kChecksum));
  if (const std::string found = checksum(file->metadata, file->tensors); found != expected) {
    return damaged_file(fmt::format("the checksum is {}, the content gives {}", expected, found));
  }
  return file;
}

}  // namespace tessera::nn
