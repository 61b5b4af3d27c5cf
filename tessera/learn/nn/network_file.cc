#include "tessera/learn/nn/network_file.h"

#include <cmath>

#include "tessera/learn/nn/weights_file.h"

namespace tessera::nn {
namespace {

constexpr WeightsFormat kFormat = {"tessera.network", "a cost model", 1};

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
  for (const NumberField& field : kNumbers) {
    m[field.name] = fmt::format("{}", network.*field.member);
  }
  add_hyper_and_notes(network.spec.hyper, network.notes, &m);
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
  return read_hyper_and_notes(metadata, &network->spec.hyper, &network->notes);
}

Result<void> read_tensors(const NamedTensors& tensors, TrainedNetwork* network) {
  for (const NamedTensor& t : tensors) network->weights[t.name] = t.tensor;
  for (const VectorField& field : kVectors) {
    TESSERA_TRY(network->*field.normalizer.*field.member,
                take_vector(field.name, &network->weights));
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
    tensors.push_back(vector_tensor(field.name, network.*field.normalizer.*field.member));
  }
  return write_weights(path, kFormat, make_metadata(network), tensors);
}

Result<TrainedNetwork> load_network(const std::string& path) {
  return naming_file(path, parse_network(path));
}

}  // namespace tessera::nn
