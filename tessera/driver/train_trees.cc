#include "tessera/driver/train_trees.h"

#include <chrono>
#include <filesystem>
#include <set>

#include "tessera/model/cost_model.h"
#include "tessera/support/npz.h"
#include "tessera/support/rng.h"

namespace tessera::driver {
namespace {

constexpr std::size_t kScoredAtOnce = 4096;

// Failed examples teach nothing about speed here, and those without features nothing at all.
bool teaches(const dataset::FeatureView& view) { return view.seconds > 0 && view.row_count > 0; }

model::TrainingSet training_set(const dataset::Dataset& data, const dataset::FeatureStore& store,
                                const dataset::Split& split, const TrainTreesOptions& options,
                                TrainTreesResult* result) {
  const auto wanted = [&](std::size_t i) {
    const auto machine = static_cast<std::size_t>(data.examples[i].machine);
    return split.part[i] == dataset::kTrain &&
           data.machines[machine].target.find(options.machine) != std::string::npos;
  };
  std::size_t values = 0;
  for (std::size_t i = 0; i < store.size(); ++i) {
    const dataset::FeatureView view = store[i];
    if (wanted(i) && teaches(view)) values += view.rows.size();
  }
  const double share = values > options.most_values
                           ? static_cast<double>(options.most_values) / static_cast<double>(values)
                           : 1;
  Rng rng(options.seed);
  model::TrainingSet out;
  out.features.columns = static_cast<std::size_t>(store.columns());
  std::set<std::int32_t> tasks;
  for (std::size_t i = 0; i < store.size(); ++i) {
    const dataset::FeatureView view = store[i];
    if (!wanted(i) || !teaches(view) || (share < 1 && !rng.chance(share))) continue;
    out.features.add(view.rows);
    out.labels.push_back(view.label);
    out.groups.push_back(view.task * static_cast<std::int32_t>(data.machines.size()) +
                         view.machine);
    tasks.insert(view.task);
  }
  result->records = out.labels.size();
  result->tasks = tasks.size();
  return out;
}

std::vector<float> score_all(const dataset::FeatureStore& store, const model::CostModel& model) {
  std::vector<float> scores;
  feature::FeatureSet set;
  set.columns = static_cast<std::size_t>(store.columns());
  for (std::size_t i = 0; i < store.size(); ++i) {
    set.add(store[i].rows);
    if (set.candidates() < kScoredAtOnce && i + 1 < store.size()) continue;
    const std::vector<float> part = model.predict(set);
    scores.insert(scores.end(), part.begin(), part.end());
    set.clear();
  }
  return scores;
}

Result<void> write_scores(const std::vector<float>& scores, const std::string& path) {
  HostTensor tensor(DType::kF32, {static_cast<std::int64_t>(scores.size())});
  std::copy(scores.begin(), scores.end(), tensor.as<float>());
  NamedTensors tensors;
  tensors.push_back({"score", tensor});
  return write_npz(path, tensors);
}

}  // namespace

Result<TrainTreesResult> train_trees(const TrainTreesOptions& options) {
  const auto note = [&](const std::string& line) {
    if (options.note) options.note(line);
  };
  TESSERA_TRY(const dataset::Dataset data, dataset::load(options.data));
  TESSERA_TRY(const dataset::Split split, dataset::split(data, options.split));
  std::vector<std::string> held_out;  // empty: all
  if (options.split.kind == dataset::SplitKind::kByNetwork) {
    TESSERA_TRY(held_out, data.network_names(options.split.holdout));
  }
  std::error_code error;
  std::filesystem::create_directories(options.features, error);  // opening says what is wrong
  std::size_t told = 0;
  const auto progress = [&](std::size_t done, std::size_t total) {
    if (done != total && done < told + total / 20) return;
    told = done;
    note(fmt::format("features per statement: {} of {}", done, total));
  };
  TESSERA_TRY(const std::unique_ptr<dataset::FeatureStore> store,
              dataset::open_features(data, nn::Rows::kStatement, options.features, options.threads,
                                     progress));
  TESSERA_TRY(const std::unique_ptr<model::CostModel> model,
              model::make_model("xgb", {options.objective, options.seed, store->row_schema()}));
  TrainTreesResult out;
  {
    const model::TrainingSet examples = training_set(data, *store, split, options, &out);
    note(fmt::format("fitting to {} records of {} tasks", out.records, out.tasks));
    const auto start = std::chrono::steady_clock::now();
    TESSERA_DO(model->fit(examples,
                          {options.time_limit_s, options.threads, options.rounds, options.depth}));
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (!options.output.empty()) TESSERA_DO(model->save(options.output));
  const std::vector<float> scores = score_all(*store, *model);
  if (!options.scores.empty()) TESSERA_DO(write_scores(scores, options.scores));
  out.validation = dataset::evaluate(data, split, dataset::kValidation, scores);
  out.test = dataset::evaluate(data, split, dataset::kTest, scores, held_out);
  return out;
}

}  // namespace tessera::driver
