#include "tessera/learn/nn/graph_network_file.h"

#include <algorithm>

#include "tessera/learn/nn/weights_file.h"

namespace tessera::nn {
namespace {

constexpr WeightsFormat kFormat = {"tessera.graph_network", "a network of graphs", 1};

struct VectorField {
  const char* name;
  Normalizer TrainedGraphNetwork::*normalizer;
  std::vector<float> Normalizer::*member;
};
constexpr VectorField kVectors[] = {
    {"normalizer.nodes.shift", &TrainedGraphNetwork::nodes, &Normalizer::shift},
    {"normalizer.nodes.scale", &TrainedGraphNetwork::nodes, &Normalizer::scale},
    {"normalizer.configs.shift", &TrainedGraphNetwork::configs, &Normalizer::shift},
    {"normalizer.configs.scale", &TrainedGraphNetwork::configs, &Normalizer::scale},
};

Result<void> check_network(const TrainedGraphNetwork& network) {
  TESSERA_TRY(const Network built, build_graph_network(network.spec, smallest_shape()));
  TESSERA_DO(check_weights(network.spec.network, built.parameters, network.weights));
  for (const VectorField& field : kVectors) {
    const std::vector<float>& v = network.*field.normalizer.*field.member;
    const bool nodes = field.normalizer == &TrainedGraphNetwork::nodes;
    const std::size_t columns =
        nodes
            ? static_cast<std::size_t>(network.spec.columns)
            : (network.kind == "tile" ? static_cast<std::size_t>(network.spec.config_columns) : 0);
    if (v.size() != columns || !all_finite(v.data(), static_cast<std::int64_t>(v.size()))) {
      return make_error(ErrorCode::kInvalidArgument, "{} has not {} finite values", field.name,
                        columns);
    }
  }
  if (network.kind == "layout" || network.kind == "tile") return {};
  return make_error(ErrorCode::kInvalidArgument, "there are no graphs of kind '{}'", network.kind);
}

Result<TrainedGraphNetwork> parse(const std::string& path) {
  TESSERA_TRY(const Safetensors file, read_weights(path, kFormat));
  TrainedGraphNetwork out;
  const Metadata& m = file.metadata;
  TESSERA_TRY(out.spec.network, read_word(m, "network"));
  TESSERA_TRY(out.spec.columns, read_number<std::int64_t>(m, "columns"));
  TESSERA_TRY(out.spec.config_columns, read_number<std::int64_t>(m, "config_columns"));
  TESSERA_TRY(out.kind, read_word(m, "kind"));
  TESSERA_TRY(out.share, read_number<double>(m, "share"));
  TESSERA_DO(read_hyper_and_notes(m, &out.spec.hyper, &out.notes));
  // Files from before there was such a thing.
  const auto& table = graph_network_table();
  const auto entry = std::find_if(table.begin(), table.end(), [&](const GraphNetworkEntry& e) {
    return out.spec.network == e.name;
  });
  if (entry != table.end() && entry->defaults.contains("estimate")) {
    out.spec.hyper.try_emplace("estimate", 0);
  }
  for (const NamedTensor& t : file.tensors) out.weights[t.name] = t.tensor;
  for (const VectorField& field : kVectors) {
    TESSERA_TRY(out.*field.normalizer.*field.member, take_vector(field.name, &out.weights));
  }
  TESSERA_DO(check_network(out));
  return out;
}

}  // namespace

GraphShape smallest_shape() { return padded_graph_shape({.configs = 1, .nodes = 1, .places = 1}); }

Result<void> save_graph_network(const TrainedGraphNetwork& network, const std::string& path) {
  if (auto whole = check_network(network); !whole.ok()) return whole.error().with_context(path);
  Metadata metadata = {{"network", network.spec.network},
                       {"columns", std::to_string(network.spec.columns)},
                       {"config_columns", std::to_string(network.spec.config_columns)},
                       {"kind", network.kind},
                       {"share", fmt::format("{}", network.share)}};
  add_hyper_and_notes(network.spec.hyper, network.notes, &metadata);
  NamedTensors tensors;
  for (const auto& [name, tensor] : network.weights) tensors.push_back({name, tensor});
  for (const VectorField& field : kVectors) {
    tensors.push_back(vector_tensor(field.name, network.*field.normalizer.*field.member));
  }
  return write_weights(path, kFormat, std::move(metadata), tensors);
}

Result<TrainedGraphNetwork> load_graph_network(const std::string& path) {
  return naming_file(path, parse(path));
}

}  // namespace tessera::nn
