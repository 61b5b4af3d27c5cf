#include "tessera/nn/network_file.h"

#include <charconv>
#include <cmath>

#include "tessera/support/hash.h"
#include "tessera/support/safetensors.h"

namespace tessera::nn {
namespace {

using Metadata = std::map<std::string, std::string>;

constexpr const char* kFormat = "tessera.network";
constexpr std::int64_t kVersion = 1;
constexpr const char* kChecksum = "checksum";
constexpr std::string_view kHyper = "hyper.", kNote = "note.", kPad = "_pad.";

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}
template <class... Args>
Error damaged(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kIo, "damaged: {}",
                    fmt::format(format, std::forward<Args>(args)...));
}

struct NumberField {
  const char* name;
  double TrainedNetwork::*member;
};
constexpr NumberField kNumbers[] = {{"time_shift", &TrainedNetwork::time_shift},
                                    {"residual_low", &TrainedNetwork::residual_low},
                                    {"residual_mid", &TrainedNetwork::residual_mid},
                                    {"residual_high", &TrainedNetwork::residual_high}};

struct VectorField {
  const char* name;
  Normalizer TrainedNetwork::*normalizer;
  std::vector<float> Normalizer::*member;
  std::int64_t NetworkSpec::*size;
};
constexpr VectorField kVectors[] = {
    {"normalizer.rows.shift", &TrainedNetwork::rows, &Normalizer::shift, &NetworkSpec::columns},
    {"normalizer.rows.scale", &TrainedNetwork::rows, &Normalizer::scale, &NetworkSpec::columns},
    {"normalizer.context.shift", &TrainedNetwork::context, &Normalizer::shift,
     &NetworkSpec::context},
    {"normalizer.context.scale", &TrainedNetwork::context, &Normalizer::scale,
     &NetworkSpec::context},
};

bool all_finite(const float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return false;
  }
  return true;
}

Result<void> check_weights(const TrainedNetwork& network) {
  TESSERA_TRY(const Network built, build_network(network.spec, {.batch = 1, .rows = 1}));
  for (const Parameter& p : built.parameters) {
    const auto it = network.weights.find(p.name);
    if (it == network.weights.end()) {
      return bad("weight {} of network {} is missing", p.name, network.spec.network);
    }
    const HostTensor& w = it->second;
    if (w.dtype() != DType::kF32 || w.shape() != p.shape) {
      return bad("weight {} is {} {}, network {} needs f32 {}", p.name, to_text(w.dtype()),
                 to_text(w.shape()), network.spec.network, to_text(p.shape));
    }
    if (!all_finite(w.as<float>(), w.size())) {
      return bad("weight {} has values that are not finite", p.name);
    }
  }
  if (network.weights.size() == built.parameters.size()) return {};
  for (const auto& [name, tensor] : network.weights) {
    bool known = false;
    for (const Parameter& p : built.parameters) known = known || p.name == name;
    if (!known) return bad("network {} has no weight {}", network.spec.network, name);
  }
  return {};
}

// What must hold on both sides of a file.
Result<void> check_network(const TrainedNetwork& network) {
  TESSERA_DO(check_weights(network));
  for (const VectorField& field : kVectors) {
    const std::vector<float>& v = network.*field.normalizer.*field.member;
    const auto count = static_cast<std::int64_t>(v.size());
    if (count != network.spec.*field.size) {
      return bad("{} has {} values for {} columns", field.name, count, network.spec.*field.size);
    }
    if (!all_finite(v.data(), count)) return bad("{} has values that are not finite", field.name);
  }
  for (const NumberField& field : kNumbers) {
    if (!std::isfinite(network.*field.member)) return bad("{} is not finite", field.name);
  }
  return {};
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

Metadata make_metadata(const TrainedNetwork& network) {
  Metadata m = {{"format", kFormat},
                {"version", std::to_string(kVersion)},
                {"network", network.spec.network},
                {"columns", std::to_string(network.spec.columns)},
                {"context", std::to_string(network.spec.context)},
                {"row_schema", network.row_schema},
                {"context_schema", network.context_schema}};
  for (const auto& [name, value] : network.spec.hyper) {
    m[std::string(kHyper) + name] = std::to_string(value);
  }
  for (const NumberField& field : kNumbers)
    m[field.name] = fmt::format("{}", network.*field.member);
  for (const auto& [name, value] : network.notes) m[std::string(kNote) + name] = value;
  return m;
}

// A file holds text in UTF-8 only; other bytes would not come back as they were.
Result<void> check_text(const Metadata& metadata) {
  TESSERA_TRY(const SafetensorsLayout layout, lay_out_safetensors({}, metadata));
  TESSERA_TRY(const Safetensors back, parse_safetensors(layout.header));
  if (back.metadata != metadata) return bad("a note or schema is not UTF-8 text");
  return {};
}

Result<std::string> word(const Metadata& metadata, const std::string& key) {
  const auto it = metadata.find(key);
  if (it == metadata.end()) return damaged("{} is missing", key);
  return it->second;
}

template <class T>
Result<T> number(const Metadata& metadata, const std::string& key) {
  TESSERA_TRY(const std::string text, word(metadata, key));
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end) return damaged("{} '{}' is not a number", key, text);
  return value;
}

Result<void> check_format(const Metadata& metadata) {
  const auto it = metadata.find("format");
  if (it == metadata.end() || it->second != kFormat) {
    return bad("these tensors are not a cost model of Tessera");
  }
  TESSERA_TRY(const auto version, number<std::int64_t>(metadata, "version"));
  if (version != kVersion) {
    return bad("version {} of the file format; this Tessera reads version {}", version, kVersion);
  }
  return {};
}

Result<void> read_metadata(const Metadata& metadata, TrainedNetwork* network) {
  TESSERA_TRY(network->spec.network, word(metadata, "network"));
  TESSERA_TRY(network->spec.columns, number<std::int64_t>(metadata, "columns"));
  TESSERA_TRY(network->spec.context, number<std::int64_t>(metadata, "context"));
  TESSERA_TRY(network->row_schema, word(metadata, "row_schema"));
  TESSERA_TRY(network->context_schema, word(metadata, "context_schema"));
  for (const NumberField& field : kNumbers) {
    TESSERA_TRY(network->*field.member, number<double>(metadata, field.name));
  }
  for (const auto& [key, value] : metadata) {
    if (key.starts_with(kNote)) network->notes[key.substr(kNote.size())] = value;
    if (!key.starts_with(kHyper)) continue;
    TESSERA_TRY(network->spec.hyper[key.substr(kHyper.size())],
                number<std::int64_t>(metadata, key));
  }
  return {};
}

Result<void> read_tensors(const NamedTensors& tensors, TrainedNetwork* network) {
  for (const NamedTensor& t : tensors) network->weights[t.name] = t.tensor;
  for (const VectorField& field : kVectors) {
    const auto it = network->weights.find(field.name);
    if (it == network->weights.end()) return damaged("{} is missing", field.name);
    const HostTensor& t = it->second;
    if (t.dtype() != DType::kF32 || t.shape().size() != 1) {
      return bad("{} is {} {}, not a vector of f32", field.name, to_text(t.dtype()),
                 to_text(t.shape()));
    }
    (network->*field.normalizer.*field.member).assign(t.as<float>(), t.as<float>() + t.size());
    network->weights.erase(it);
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
      if (t.tensor.as<char>()[i] != 0) return damaged("padding is not zero");
    }
  }
  return kept;
}

Result<TrainedNetwork> parse_network(const std::string& path) {
  Result<Safetensors> file = read_safetensors(path);
  if (!file.ok()) return Error{ErrorCode::kIo, file.error().message};
  TESSERA_DO(check_format(file->metadata));
  TESSERA_TRY(const NamedTensors tensors, drop_padding(std::move(file->tensors)));
  TESSERA_TRY(const std::string expected, word(file->metadata, kChecksum));
  if (const std::string found = checksum(file->metadata, tensors); found != expected) {
    return damaged("the checksum is {}, the content gives {}", expected, found);
  }
  TrainedNetwork network;
  TESSERA_DO(read_metadata(file->metadata, &network));
  TESSERA_DO(read_tensors(tensors, &network));
  TESSERA_DO(check_network(network));
  return network;
}

}  // namespace

Result<void> save_network(const TrainedNetwork& network, const std::string& path) {
  if (auto whole = check_network(network); !whole.ok()) return whole.error().with_context(path);
  NamedTensors tensors;
  for (const auto& [name, tensor] : network.weights) tensors.push_back({name, tensor});
  for (const VectorField& field : kVectors) {
    const std::vector<float>& v = network.*field.normalizer.*field.member;
    HostTensor tensor(DType::kF32, {static_cast<std::int64_t>(v.size())});
    std::copy(v.begin(), v.end(), tensor.as<float>());
    tensors.push_back({field.name, std::move(tensor)});
  }
  Metadata metadata = make_metadata(network);
  if (auto text = check_text(metadata); !text.ok()) return text.error().with_context(path);
  metadata[kChecksum] = checksum(metadata, tensors);
  return write_safetensors(path, tensors, metadata);
}

Result<TrainedNetwork> load_network(const std::string& path) {
  Result<TrainedNetwork> network = parse_network(path);
  if (network.ok() || network.error().message.starts_with(path)) return network;
  return network.error().with_context(path);
}

}  // namespace tessera::nn
