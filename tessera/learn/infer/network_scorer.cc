#include "tessera/learn/infer/network_scorer.h"

#include <algorithm>
#include <cstring>

#include "tessera/learn/infer/compiled_network.h"
#include "tessera/support/parallel.h"

namespace tessera::infer {
namespace {

// Rows of one batch, all candidates together: enough for products to be efficient, few enough for
// what lies between layers to stay in the cache.
constexpr std::int64_t kBatchRows = 384;
constexpr std::int64_t kLeastBatch = 8, kMostBatch = 128;

}  // namespace

Result<graph::Graph> instance_graph(const nn::NetworkSpec& spec,
                                    const std::map<std::string, HostTensor>& weights,
                                    const nn::InstanceShape& shape) {
  TESSERA_TRY(nn::Network network, nn::build_network(spec, shape));
  return bind_weights(std::move(network), weights, spec.network);
}

struct NetworkScorer::Instance {
  nn::InstanceShape shape;
  std::unique_ptr<CompiledNetwork> code;  // a runner for each thread
};

struct NetworkScorer::Batch {
  const std::uint32_t* candidates = nullptr;
  std::size_t count = 0;
  const std::vector<std::size_t>* first_row = nullptr;  // by candidate
};

NetworkScorer::NetworkScorer(nn::TrainedNetwork network, PrunedNetwork pruned, feature::Rows rows,
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
  TESSERA_TRY(made->code, CompiledNetwork::make(std::move(graph), {.runners = threads_}));
  slot = std::move(made);
  return slot.get();
}

void NetworkScorer::fill(const feature::FeatureSet& features, const Batch& batch,
                         Instance& instance, std::size_t runner) const {
  exec::ModelRunner& run = instance.code->runner(runner);
  const auto rows = static_cast<std::size_t>(instance.shape.rows);
  const std::size_t columns = pruned_.columns.size();
  auto* to = static_cast<float*>(run.input_data(0));
  auto* mask = static_cast<float*>(run.input_data(1));
  auto* context = network_.spec.context > 0 ? static_cast<float*>(run.input_data(2)) : nullptr;
  auto* parents = rows_ == feature::Rows::kLoop
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
  const auto score = [&](std::size_t b, std::size_t runner) -> Result<void> {
    const Batch part{candidates.data() + b * batch, std::min(batch, candidates.size() - b * batch),
                     &first_row};
    fill(features, part, *made, runner);
    exec::ModelRunner& run = made->code->runner(runner);
    TESSERA_DO(run.run());
    std::vector<float>* const outputs[] = {&out->score, &out->validity, &out->log_time};
    for (std::size_t o = 0; o < 3; ++o) {
      const auto* values = static_cast<const float*>(run.output_data(o));
      for (std::size_t i = 0; i < part.count; ++i) {
        (*outputs[o])[part.candidates[i]] = values[i];
      }
    }
    return {};
  };
  return try_parallel_for(batches, static_cast<int>(threads_), score);
}

Result<NetworkOutputs> NetworkScorer::run(const feature::FeatureSet& features) {
  const std::size_t n = features.candidates();
  const auto wanted = static_cast<std::size_t>(network_.spec.columns);
  const auto context = static_cast<std::size_t>(network_.spec.context);
  if (n > 0 && (features.columns != wanted || features.context_columns != context ||
                features.context.size() != n * context ||
                (rows_ == feature::Rows::kLoop && features.parents.size() != features.rows()))) {
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

}  // namespace tessera::infer
