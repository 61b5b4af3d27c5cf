#include "tessera/nn/network_file.h"

#include <cmath>

#include "tessera/nn/weights_file.h"

namespace tessera::nn {
namespace {

constexpr WeightsFormat kFormat = {"tessera.network", "a cost model", 1};
constexpr std::string_view kHyper = "hyper.", kNote = "note.";

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
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

// What must hold on both sides of a file.
Result<void> check_network(const TrainedNetwork& network) {
  TESSERA_TRY(const Network built, build_network(network.spec, {.batch = 1, .rows = 1}));
  TESSERA_DO(check_weights(network.spec.network, built.parameters, network.weights));
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

Metadata make_metadata(const TrainedNetwork& network) {
  Metadata m = {{"network", network.spec.network},
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

Result<void> read_metadata(const Metadata& metadata, TrainedNetwork* network) {
  TESSERA_TRY(network->spec.network, read_word(metadata, "network"));
  TESSERA_TRY(network->spec.columns, read_number<std::int64_t>(metadata, "columns"));
  TESSERA_TRY(network->spec.context, read_number<std::int64_t>(metadata, "context"));
  TESSERA_TRY(network->row_schema, read_word(metadata, "row_schema"));
  TESSERA_TRY(network->context_schema, read_word(metadata, "context_schema"));
  for (const NumberField& field : kNumbers) {
    TESSERA_TRY(network->*field.member, read_number<double>(metadata, field.name));
  }
  for (const auto& [key, value] : metadata) {
    if (key.starts_with(kNote)) network->notes[key.substr(kNote.size())] = value;
    if (!key.starts_with(kHyper)) continue;
    TESSERA_TRY(network->spec.hyper[key.substr(kHyper.size())],
                read_number<std::int64_t>(metadata, key));
  }
  return {};
}

Result<void> read_tensors(const NamedTensors& tensors, TrainedNetwork* network) {
  for (const NamedTensor& t : tensors) network->weights[t.name] = t.tensor;
  for (const VectorField& field : kVectors) {
    const auto it = network->weights.find(field.name);
    if (it == network->weights.end()) return damaged_file(std::string(field.name) + " is missing");
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

Result<TrainedNetwork> parse_network(const std::string& path) {
  TESSERA_TRY(const Safetensors file, read_weights(path, kFormat));
  TrainedNetwork network;
  TESSERA_DO(read_metadata(file.metadata, &network));
  TESSERA_DO(read_tensors(file.tensors, &network));
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
  return write_weights(path, kFormat, make_metadata(network), tensors);
}

Result<TrainedNetwork> load_network(const std::string& path) {
  Result<TrainedNetwork> network = parse_network(path);
  if (network.ok() || network.error().message.starts_with(path)) return network;
  return network.error().with_context(path);
}

}  // namespace tessera::nn
