#include "tessera/learn/model/graph_scorer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "tessera/support/parallel.h"

namespace tessera::model {
namespace {

// Of one run: as many as training compares, where the network compares them.
constexpr std::int64_t kConfigs = 64;

}  // namespace

GraphScorer::GraphScorer(nn::TrainedGraphNetwork network, int threads)
    : network_(std::move(network)),
      encoding_(graphset::encoding_of(network_)),
      threads_(static_cast<std::size_t>(std::max(1, threads))) {}

Result<std::unique_ptr<GraphScorer>> GraphScorer::make(nn::TrainedGraphNetwork network,
                                                       int threads) {
  const nn::GraphShape shape = nn::smallest_shape();
  TESSERA_TRY(nn::Network built, nn::build_graph_network(network.spec, shape));
  TESSERA_DO(infer::bind_weights(std::move(built), network.weights, network.spec.network));
  return std::unique_ptr<GraphScorer>(new GraphScorer(std::move(network), threads));
}

Result<GraphScorer::Instance*> GraphScorer::instance(const nn::GraphShape& shape) {
  const auto key = std::pair(shape.nodes, shape.places);
  if (const auto found = instances_.find(key); found != instances_.end()) return &found->second;
  TESSERA_TRY(nn::Network built, nn::build_graph_network(network_.spec, shape));
  TESSERA_TRY(graph::Graph graph,
              infer::bind_weights(std::move(built), network_.weights, network_.spec.network));
  Instance made;
  for (const graph::ValueId id : graph.inputs) made.inputs.push_back(graph.value(id).name);
  TESSERA_TRY(made.code, infer::CompiledNetwork::make(std::move(graph), {.runners = threads_}));
  return &instances_.emplace(key, std::move(made)).first->second;
}

Result<void> GraphScorer::add_scores(const graphset::ConfigGraph& graph,
                                     const graphset::Segment& segment, std::size_t segments,
                                     std::vector<float>* scores) {
  const nn::GraphShape shape =
      nn::padded_graph_shape({.configs = kConfigs,
                              .nodes = static_cast<std::int64_t>(segment.nodes.size()),
                              .places = static_cast<std::int64_t>(segment.places.size())});
  TESSERA_TRY(Instance* const made, instance(shape));
  const auto batches = static_cast<std::size_t>((graph.size() + kConfigs - 1) / kConfigs);
  const int rounds = graphset::score_rounds(network_.spec);
  std::vector<std::vector<std::int64_t>> orders;
  orders.reserve(static_cast<std::size_t>(rounds));
  for (int round = 0; round < rounds; ++round) {
    orders.push_back(graphset::round_order(graph.size(), round));
  }
  struct Inputs {
    float *configs = nullptr, *estimates = nullptr;
    bool written = false;  // what stays the same for every batch
  };
  std::vector<Inputs> inputs(threads_);
  const auto write_still = [&](exec::ModelRunner& runner, Inputs* in) {
    for (std::size_t i = 0; i < made->inputs.size(); ++i) {
      auto* to = static_cast<float*>(runner.input_data(i));
      const std::vector<float> still =
          graphset::still_input(made->inputs[i], encoding_, graph, segment, shape);
      if (made->inputs[i] == "configs") in->configs = to;
      if (made->inputs[i] == "estimate") in->estimates = to;
      if (!still.empty()) std::memcpy(to, still.data(), still.size() * sizeof(float));
    }
    in->written = true;
  };
  std::mutex mutex;
  const auto score = [&](std::size_t job, std::size_t thread) -> Result<void> {
    exec::ModelRunner& runner = made->code->runner(thread);
    Inputs& in = inputs[thread];
    if (!in.written) write_still(runner, &in);
    const std::vector<std::int64_t>& order = orders[job / batches];
    const std::int64_t first = static_cast<std::int64_t>(job % batches) * kConfigs;
    // The last ones are compared with some of the first.
    std::vector<std::int64_t> batch(kConfigs);
    for (std::int64_t i = 0; i < kConfigs; ++i) {
      batch[static_cast<std::size_t>(i)] =
          order[static_cast<std::size_t>((first + i) % graph.size())];
    }
    graphset::fill_configs(encoding_, graph, segment, batch, shape, in.configs);
    if (in.estimates != nullptr) graphset::fill_estimates(graph, batch, segments, in.estimates);
    TESSERA_DO(runner.run());
    const auto* out = static_cast<const float*>(runner.output_data(0));
    const std::int64_t count = std::min(kConfigs, graph.size() - first);
    const std::lock_guard lock(mutex);
    for (std::int64_t i = 0; i < count; ++i) {
      (*scores)[static_cast<std::size_t>(batch[static_cast<std::size_t>(i)])] +=
          out[i] / static_cast<float>(rounds);
    }
    return {};
  };
  return try_parallel_for(batches * static_cast<std::size_t>(rounds), static_cast<int>(threads_),
                          score);
}

Result<std::vector<float>> GraphScorer::score(const graphset::ConfigGraph& graph) {
  TESSERA_DO(graphset::check_fits(encoding_, graph));
  std::vector<float> scores(static_cast<std::size_t>(graph.size()), 0);
  if (scores.empty()) return scores;
  const std::vector<graphset::Segment> segments =
      graphset::cut(graph, graphset::cut_options(network_.spec));
  for (const graphset::Segment& segment : segments) {
    if (const auto added = add_scores(graph, segment, segments.size(), &scores); !added.ok()) {
      return added.error().with_context(graph.name);
    }
  }
  return scores;
}

void add_standardized(const std::vector<float>& scores, std::vector<float>* sum) {
  double mean = 0, square = 0;
  for (const float s : scores) mean += s / static_cast<double>(scores.size());
  for (const float s : scores) square += (s - mean) * (s - mean);
  const double deviation = std::sqrt(square / static_cast<double>(scores.size()));
  sum->resize(scores.size(), 0);
  for (std::size_t i = 0; i < scores.size() && deviation > 0; ++i) {
    (*sum)[i] += static_cast<float>((scores[i] - mean) / deviation);
  }
}

}  // namespace tessera::model
