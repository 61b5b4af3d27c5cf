#include "tessera/app/study/train_trees.h"

#include <filesystem>
#include <set>

#include <fmt/ranges.h>

#include "tessera/learn/dataset/training.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/learn/model/model_file.h"
#include "tessera/learn/nn/training_notes.h"
#include "tessera/support/clock.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

constexpr std::size_t kScoredAtOnce = 4096;

// Failed examples teach nothing about speed here, and those without features nothing at all.
bool teaches(const dataset::FeatureView& view) { return view.seconds > 0 && view.row_count > 0; }

model::TrainingSet training_set(const dataset::Dataset& data, const dataset::FeatureStore& store,
                                const dataset::Split& split, const TrainTreesOptions& options,
                                TrainTreesResult* result) {
  const auto wanted = [&](std::size_t i) { return split.part[i] == dataset::kTrain; };
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

// As those of networks, so that nobody tests on what it learned from.
nn::Notes notes_of(const dataset::Dataset& data, const dataset::Split& split,
                   const TrainTreesOptions& options, const TrainTreesResult& result) {
  nn::Notes notes = dataset::data_notes(data, split);
  const bool by_network = options.split.kind == dataset::SplitKind::kByNetwork;
  nn::note_tasks(dataset::keys_of(data, split, dataset::kTrain),
                 dataset::keys_of(data, split, dataset::kValidation), &notes);
  nn::note_kinds(dataset::kinds_of(data, split), &notes);
  nn::note_training({dataset::to_text(options.split.kind),
                     by_network ? fmt::format("{}", fmt::join(options.split.holdout, ",")) : "",
                     dataset::to_note(options.split)},
                    nullptr, &notes);
  notes["loss"] = options.objective;
  notes["seed"] = fmt::format("{}", options.seed);
  notes["records"] = fmt::format("{}", result.records);
  notes["tasks"] = fmt::format("{}", result.tasks);
  if (result.test.average.records > 0) {
    notes["top1"] = fmt::format("{:.4f}", result.test.top1);
    notes["top5"] = fmt::format("{:.4f}", result.test.top5);
    notes["pairwise"] = fmt::format("{:.4f}", result.test.average.pairwise);
  }
  return notes;
}

}  // namespace

Result<TrainTreesResult> train_trees(const TrainTreesOptions& options) {
  const auto note = [&](const std::string& line) {
    if (options.note) options.note(line);
  };
  TESSERA_TRY(const dataset::Dataset data, dataset::load(options.data));
  TESSERA_TRY(dataset::Split split, dataset::split(data, options.split));
  dataset::keep_machine(data, options.machine, false, &split);
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
              dataset::open_features(data, feature::Rows::kStatement, options.features,
                                     options.threads, progress));
  TESSERA_TRY(const std::unique_ptr<model::CostModel> model,
              model::make_model("xgb", {options.objective, options.seed, store->row_schema()}));
  TrainTreesResult out;
  {
    const model::TrainingSet examples = training_set(data, *store, split, options, &out);
    note(fmt::format("fitting to {} records of {} tasks", out.records, out.tasks));
    const auto start = Clock::now();
    TESSERA_DO(model->fit(examples,
                          {options.time_limit_s, options.threads, options.rounds, options.depth}));
    out.seconds = seconds_since(start);
  }
  const std::vector<float> scores = score_all(*store, *model);
  if (!options.scores.empty()) {
    TESSERA_DO(dataset::write_columns(options.scores, {{"score", &scores}}));
  }
  out.validation = dataset::evaluate(data, split, dataset::kValidation, scores);
  out.test = dataset::evaluate(data, split, dataset::kTest, scores, held_out);
  if (options.output.empty()) return out;
  TESSERA_DO(model->save(options.output));
  TESSERA_DO(model::set_notes(options.output, notes_of(data, split, options, out)));
  return out;
}

}  // namespace tessera::app
