#include "tessera/learn/train/graph_trainee.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace tessera::train {
namespace {

// Below, a dense product takes less time.
constexpr std::int64_t kSparseNodes = 128;

// Whether an input is only multiplied with rows of nodes or places, and mostly 0.
bool is_sparse(const std::string& name, const nn::GraphNetworkSpec& spec,
               const nn::GraphShape& shape) {
  if (shape.nodes < kSparseNodes) return false;
  const bool early_place = name == "place" && spec.hyper.at("early") != 0;
  return name == "sources" || name == "users" || name == "symmetric" || early_place;
}

}  // namespace

using at::Tensor;

GraphTrainee::GraphTrainee(nn::GraphNetworkSpec spec, graphset::Encoding encoding,
                           std::int64_t configs, const at::Device& device,
                           std::vector<nn::Parameter> parameters)
    : spec_(std::move(spec)),
      encoding_(std::move(encoding)),
      configs_(configs),
      device_(device),
      adam_(std::move(parameters), device) {}

Result<std::unique_ptr<GraphTrainee>> GraphTrainee::make(nn::GraphNetworkSpec spec,
                                                         graphset::Encoding encoding,
                                                         std::int64_t configs, at::Device device,
                                                         std::uint64_t seed) {
  TESSERA_TRY(nn::Network network, nn::build_graph_network(spec, nn::smallest_shape()));
  Rng rng(seed);
  Weights weights;
  for (const nn::Parameter& p : network.parameters) weights[p.name] = nn::initial_value(p, rng);
  std::unique_ptr<GraphTrainee> trainee(new GraphTrainee(
      std::move(spec), std::move(encoding), configs, device, std::move(network.parameters)));
  TESSERA_DO(trainee->adam_.set_weights(weights));
  return trainee;
}

LoadedGraph GraphTrainee::load(const graphset::ConfigGraph& graph) const {
  LoadedGraph out{&graph, graphset::cut(graph, graphset::cut_options(spec_)), {}};
  out.still.resize(out.segments.size());
  return out;
}

Result<const GraphTrainee::Instance*> GraphTrainee::instance(const nn::GraphShape& shape) {
  const auto key = std::pair(shape.nodes, shape.places);
  if (const auto found = instances_.find(key); found != instances_.end()) return &found->second;
  TESSERA_TRY(nn::Network network, nn::build_graph_network(spec_, shape));
  std::vector<std::string> inputs;
  const std::size_t data = network.graph.inputs.size() - network.parameters.size();
  for (std::size_t i = 0; i < data; ++i) {
    inputs.push_back(network.graph.value(network.graph.inputs[i]).name);
  }
  TESSERA_TRY(GraphEval eval,
              GraphEval::make(std::move(network.graph),
                              at::TensorOptions().device(device_).dtype(at::kFloat)));
  return &instances_.emplace(key, Instance{std::move(eval), std::move(inputs)}).first->second;
}

Result<Tensor> GraphTrainee::run(LoadedGraph& graph, std::size_t segment,
                                 std::span<const std::int64_t> configs) {
  const graphset::Segment& part = graph.segments[segment];
  const nn::GraphShape shape =
      nn::padded_graph_shape({.configs = configs_,
                              .nodes = static_cast<std::int64_t>(part.nodes.size()),
                              .places = static_cast<std::int64_t>(part.places.size())});
  TESSERA_TRY(const Instance* const network, instance(shape));
  std::vector<std::int64_t> full;
  for (std::size_t i = 0; i < static_cast<std::size_t>(configs_); ++i) {
    full.push_back(configs[i % configs.size()]);
  }
  std::vector<Tensor> inputs;
  for (const std::string& name : network->inputs) {
    if (name == "configs") {
      Tensor host = at::empty({shape.places, configs_, encoding_.config_columns}, at::kFloat);
      graphset::fill_configs(encoding_, *graph.graph, part, full, shape, host.data_ptr<float>());
      inputs.push_back(host.to(device_));
      continue;
    }
    if (name == "estimate") {
      Tensor host = at::empty({configs_}, at::kFloat);
      graphset::fill_estimates(*graph.graph, full, graph.segments.size(), host.data_ptr<float>());
      inputs.push_back(host.to(device_));
      continue;
    }
    Tensor& kept = graph.still[segment][name];
    if (!kept.defined()) {
      const std::vector<float> values =
          graphset::still_input(name, encoding_, *graph.graph, part, shape);
      const bool of_places = name == "place_opcodes" || name == "place_ids";
      const auto rows = name == "mask" ? 1 : of_places ? shape.places : shape.nodes;
      kept = on_device(values, {rows, static_cast<std::int64_t>(values.size()) / rows}, at::kCPU);
      kept = (is_sparse(name, spec_, shape) ? kept.to_sparse() : kept.clone()).to(device_);
    }
    inputs.push_back(kept);
  }
  const std::vector<Tensor>& weights = adam_.parts();
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  return network->eval.run(inputs)[0];
}

Result<std::vector<float>> GraphTrainee::predict(LoadedGraph& graph,
                                                 std::span<const std::int64_t> configs) {
  const c10::AutoGradMode no_gradients(false);
  std::vector<float> scores(configs.size(), 0);
  const auto step = static_cast<std::size_t>(configs_);
  const int rounds = graphset::score_rounds(spec_);
  for (int round = 0; round < rounds; ++round) {
    const std::vector<std::int64_t> order =
        graphset::round_order(static_cast<std::int64_t>(configs.size()), round);
    std::vector<std::int64_t> batch;
    for (std::size_t first = 0; first < configs.size(); first += step) {
      const std::size_t count = std::min(step, configs.size() - first);
      batch.clear();
      // The last ones are compared with some of the first.
      for (std::size_t i = 0; i < step; ++i) {
        batch.push_back(configs[static_cast<std::size_t>(order[(first + i) % order.size()])]);
      }
      Tensor sum = at::zeros({configs_}, at::TensorOptions().device(device_).dtype(at::kFloat));
      for (std::size_t s = 0; s < graph.segments.size(); ++s) {
        TESSERA_TRY(const Tensor out, run(graph, s, batch));
        sum += out;
      }
      const Tensor host = sum.to(at::kCPU).contiguous();
      for (std::size_t i = 0; i < count; ++i) {
        scores[static_cast<std::size_t>(order[first + i])] +=
            host.data_ptr<float>()[i] / static_cast<float>(rounds);
      }
    }
  }
  return scores;
}

}  // namespace tessera::train
