#include "tessera/model/network_scorer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "tessera/exec/model_runner.h"
#include "tessera/graph/passes/passes.h"

namespace tessera::model {
namespace {

// Rows of one batch, all candidates together: enough for products to be efficient, few enough for
// what lies between layers to stay in the cache.
constexpr std::int64_t kBatchRows = 384;
constexpr std::int64_t kLeastBatch = 8, kMostBatch = 128;
// Columns that are left are rounded up to a multiple of this by keeping some that say nothing.
constexpr std::size_t kColumnStep = 8;

// `tensor` with only the given indices of its first axis.
HostTensor take_rows(const HostTensor& tensor, const std::vector<std::int32_t>& indices) {
  Shape shape = tensor.shape();
  const std::size_t bytes = tensor.bytes() / static_cast<std::size_t>(shape[0]);
  shape[0] = static_cast<std::int64_t>(indices.size());
  HostTensor out(tensor.dtype(), shape);
  auto* to = static_cast<std::byte*>(out.data());
  const auto* from = static_cast<const std::byte*>(tensor.data());
  for (const std::int32_t i : indices) {
    std::memcpy(to, from + static_cast<std::size_t>(i) * bytes, bytes);
    to += bytes;
  }
  return out;
}

std::vector<std::int32_t> telling_columns(const nn::Normalizer& normalizer) {
  std::vector<std::int32_t> kept, silent;
  for (std::size_t c = 0; c < normalizer.scale.size(); ++c) {
    (normalizer.scale[c] != 0 ? kept : silent).push_back(static_cast<std::int32_t>(c));
  }
  for (std::size_t i = 0; i < silent.size() && (kept.size() % kColumnStep != 0 || kept.empty());
       ++i) {
    kept.push_back(silent[i]);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace

Result<PrunedNetwork> prune_columns(const nn::TrainedNetwork& network) {
  PrunedNetwork full{network.spec, network.weights, {}};
  for (std::int64_t c = 0; c < network.spec.columns; ++c) {
    full.columns.push_back(static_cast<std::int32_t>(c));
  }
  PrunedNetwork pruned = full;
  pruned.columns = telling_columns(network.rows);
  if (pruned.columns.size() >= full.columns.size()) return full;
  pruned.spec.columns = static_cast<std::int64_t>(pruned.columns.size());
  TESSERA_TRY(const nn::Network before, nn::build_network(full.spec, {.batch = 1, .rows = 1}));
  TESSERA_TRY(const nn::Network after, nn::build_network(pruned.spec, {.batch = 1, .rows = 1}));
  if (before.parameters.size() != after.parameters.size()) return full;
  for (std::size_t i = 0; i < before.parameters.size(); ++i) {
    const nn::Parameter &old = before.parameters[i], &now = after.parameters[i];
    if (old.shape == now.shape) continue;
    // Only the reading axis of a product: its first, and what it is normalised by.
    Shape expected = old.shape;
    expected[0] = pruned.spec.columns;
    const bool reads = old.shape.size() == 2 && old.shape[0] == full.spec.columns &&
                       now.shape == expected && old.fan_in == full.spec.columns &&
                       now.fan_in == pruned.spec.columns;
    if (!reads) return full;
    HostTensor& weight = pruned.weights.at(old.name);
    weight = take_rows(weight, pruned.columns);
  }
  return pruned;
}

Result<graph::Graph> instance_graph(const nn::NetworkSpec& spec,
                                    const std::map<std::string, HostTensor>& weights,
                                    const nn::InstanceShape& shape) {
  TESSERA_TRY(nn::Network network, nn::build_network(spec, shape));
  graph::Graph& graph = network.graph;
  const std::size_t data = graph.inputs.size() - network.parameters.size();
  for (std::size_t i = 0; i < network.parameters.size(); ++i) {
    const nn::Parameter& parameter = network.parameters[i];
    const auto found = weights.find(parameter.name);
    if (found == weights.end() || found->second.shape() != parameter.shape) {
      return make_error(ErrorCode::kInvalidArgument, "{}: no weight {} of shape {}", spec.network,
                        parameter.name, to_text(parameter.shape));
    }
    graph::Value& value = graph.value(graph.inputs[data + i]);
    value.is_constant = true;
    value.constant = found->second;
  }
  graph.inputs.resize(data);
  return std::move(graph);
}

struct NetworkScorer::Instance {
  nn::InstanceShape shape;
  exec::CompiledModel model;
  std::vector<std::unique_ptr<runtime::ThreadPool>> pools;
  std::vector<std::unique_ptr<exec::ModelRunner>> runners;  // one a thread
};

struct NetworkScorer::Batch {
  const std::uint32_t* candidates = nullptr;
  std::size_t count = 0;
  const std::vector<std::size_t>* first_row = nullptr;  // by candidate
};

NetworkScorer::NetworkScorer(nn::TrainedNetwork network, PrunedNetwork pruned, nn::Rows rows,
                             int threads)
    : network_(std::move(network)),
      pruned_(std::move(pruned)),
      rows_(rows),
      threads_(static_cast<std::size_t>(std::max(1, threads))) {}

NetworkScorer::~NetworkScorer() = default;

Result<std::unique_ptr<NetworkScorer>> NetworkScorer::make(nn::TrainedNetwork network,
                                                           int threads) {
  TESSERA_TRY(const nn::NetworkEntry* entry, nn::find_network(network.spec.network));
  const auto sized = [](const nn::Normalizer& n, std::int64_t columns) {
    return n.shift.size() == static_cast<std::size_t>(columns) && n.scale.size() == n.shift.size();
  };
  if (!sized(network.rows, network.spec.columns) || !sized(network.context, network.spec.context)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: normalised columns and those read differ",
                      network.spec.network);
  }
  TESSERA_TRY(PrunedNetwork pruned, prune_columns(network));
  std::unique_ptr<NetworkScorer> scorer(
      new NetworkScorer(std::move(network), std::move(pruned), entry->rows, threads));
  TESSERA_DO(scorer->instance(nn::padded_rows(scorer->network_.spec, 4)));
  return scorer;
}

std::size_t NetworkScorer::instances() const {
  const std::lock_guard lock(mutex_);
  return instances_.size();
}

Result<NetworkScorer::Instance*> NetworkScorer::instance(std::int64_t rows) {
  std::unique_ptr<Instance>& slot = instances_[rows];
  if (slot) return slot.get();
  auto made = std::make_unique<Instance>();
  made->shape = {.batch = std::clamp(kBatchRows / rows, kLeastBatch, kMostBatch), .rows = rows};
  TESSERA_TRY(graph::Graph graph, instance_graph(pruned_.spec, pruned_.weights, made->shape));
  graph::PassOptions passes;
  passes.verify = false;
  passes.rules.merge_contractions = true;
  TESSERA_DO(graph::optimize(graph, passes));
  exec::ModelOptions options;
  options.build_threads = static_cast<int>(threads_);
  TESSERA_TRY(made->model, exec::compile_model(graph, target::host(), options));
  for (std::size_t t = 0; t < threads_; ++t) {
    made->pools.push_back(
        std::make_unique<runtime::ThreadPool>(runtime::PoolOptions{.threads = 1}));
    made->runners.push_back(std::make_unique<exec::ModelRunner>(made->model, *made->pools.back()));
  }
  slot = std::move(made);
  return slot.get();
}

void NetworkScorer::fill(const feature::FeatureSet& features, const Batch& batch,
                         Instance& instance, std::size_t runner) const {
  exec::ModelRunner& run = *instance.runners[runner];
  const auto rows = static_cast<std::size_t>(instance.shape.rows);
  const std::size_t columns = pruned_.columns.size();
  auto* to = static_cast<float*>(run.input_data(0));
  auto* mask = static_cast<float*>(run.input_data(1));
  auto* context = network_.spec.context > 0 ? static_cast<float*>(run.input_data(2)) : nullptr;
  auto* parents = rows_ == nn::Rows::kLoop
                      ? static_cast<float*>(run.input_data(context != nullptr ? 3 : 2))
                      : nullptr;
  const auto slots = static_cast<std::size_t>(instance.shape.batch);
  std::memset(mask, 0, slots * rows * sizeof(float));
  if (parents != nullptr) std::memset(parents, 0, slots * rows * rows * sizeof(float));
  for (std::size_t slot = 0; slot < batch.count; ++slot) {
    const std::size_t candidate = batch.candidates[slot];
    const std::size_t first = (*batch.first_row)[candidate];
    const std::size_t count =
        std::min(rows, static_cast<std::size_t>(features.row_count[candidate]));
    for (std::size_t r = 0; r < count; ++r) {
      const float* from = features.values.data() + (first + r) * features.columns;
      float* row = to + (slot * rows + r) * columns;
      for (std::size_t c = 0; c < columns; ++c) {
        const auto column = static_cast<std::size_t>(pruned_.columns[c]);
        row[c] = (from[column] - network_.rows.shift[column]) * network_.rows.scale[column];
      }
      mask[slot * rows + r] = 1;
      if (parents == nullptr) continue;
      const std::int16_t parent = features.parents[first + r];
      if (parent >= 0 && static_cast<std::size_t>(parent) < rows) {
        parents[(slot * rows + static_cast<std::size_t>(parent)) * rows + r] = 1;
      }
    }
    std::memset(to + (slot * rows + count) * columns, 0, (rows - count) * columns * sizeof(float));
    for (std::size_t c = 0; c < features.context_columns && context != nullptr; ++c) {
      const float value = features.context[candidate * features.context_columns + c];
      context[slot * features.context_columns + c] =
          (value - network_.context.shift[c]) * network_.context.scale[c];
    }
  }
}

Result<void> NetworkScorer::run_rows(const feature::FeatureSet& features,
                                     const std::vector<std::uint32_t>& candidates,
                                     const std::vector<std::size_t>& first_row, std::int64_t rows,
                                     NetworkOutputs* out) {
  TESSERA_TRY(Instance* const made, instance(rows));
  const auto batch = static_cast<std::size_t>(made->shape.batch);
  const std::size_t batches = (candidates.size() + batch - 1) / batch;
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::optional<Error> failure;
  const auto work = [&](std::size_t runner) {
    for (std::size_t b = next++; b < batches; b = next++) {
      const Batch part{candidates.data() + b * batch,
                       std::min(batch, candidates.size() - b * batch), &first_row};
      fill(features, part, *made, runner);
      const Result<void> ran = made->runners[runner]->run();
      if (!ran.ok()) {
        const std::lock_guard lock(mutex);
        failure = ran.error();
        return;
      }
      std::vector<float>* const outputs[] = {&out->score, &out->validity, &out->log_time};
      for (std::size_t o = 0; o < 3; ++o) {
        const auto* values = static_cast<const float*>(made->runners[runner]->output_data(o));
        for (std::size_t i = 0; i < part.count; ++i) {
          (*outputs[o])[part.candidates[i]] = values[i];
        }
      }
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t t = 1; t < std::min(threads_, batches); ++t) threads.emplace_back(work, t);
  work(0);
  threads.clear();
  if (failure) return *failure;
  return {};
}

Result<NetworkOutputs> NetworkScorer::run(const feature::FeatureSet& features) {
  const std::size_t n = features.candidates();
  const auto wanted = static_cast<std::size_t>(network_.spec.columns);
  const auto context = static_cast<std::size_t>(network_.spec.context);
  if (n > 0 && (features.columns != wanted || features.context_columns != context ||
                features.context.size() != n * context ||
                (rows_ == nn::Rows::kLoop && features.parents.size() != features.rows()))) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: features of {} columns and {} of context, the network reads {} and {}",
                      network_.spec.network, features.columns, features.context_columns, wanted,
                      context);
  }
  const std::lock_guard lock(mutex_);
  NetworkOutputs out{std::vector<float>(n), std::vector<float>(n), std::vector<float>(n)};
  std::vector<std::size_t> first_row;
  std::map<std::int64_t, std::vector<std::uint32_t>> by_rows;
  std::size_t row = 0;
  for (std::size_t i = 0; i < n; ++i) {
    first_row.push_back(row);
    row += static_cast<std::size_t>(features.row_count[i]);
    by_rows[nn::padded_rows(network_.spec, features.row_count[i])].push_back(
        static_cast<std::uint32_t>(i));
  }
  for (const auto& [rows, candidates] : by_rows) {
    TESSERA_DO(run_rows(features, candidates, first_row, rows, &out));
  }
  return out;
}

}  // namespace tessera::model
