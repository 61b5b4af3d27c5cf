#include "tessera/app/study/eval_scores.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/ranges.h>

#include "tessera/learn/infer/network_scorer.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/learn/model/model_file.h"
#include "tessera/learn/nn/training_notes.h"
#include "tessera/support/npz.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = 4096;  // examples whose features are in memory at once

// As a model takes them: context and parents only where it reads them.
void add(const dataset::FeatureView& view, bool context, feature::FeatureSet* set) {
  set->values.insert(set->values.end(), view.rows.begin(), view.rows.end());
  set->row_count.push_back(view.row_count);
  set->parents.insert(set->parents.end(), view.parents.begin(), view.parents.end());
  if (!context) return;
  set->context.insert(set->context.end(), view.context.begin(), view.context.end());
}

Error other_schema(const std::string& path, const char* what, const std::string& made_for,
                   const std::string& known) {
  return make_error(ErrorCode::kInvalidArgument,
                    "{}: made for {} of schema {}, this program computes {}", path, what, made_for,
                    known);
}

}  // namespace

Result<ScoredModel> read_scores(const std::string& path, const dataset::Dataset& data,
                                const dataset::Split& split) {
  TESSERA_TRY(const NamedTensors arrays, read_npz(path));
  const auto found = std::find_if(arrays.begin(), arrays.end(),
                                  [](const NamedTensor& t) { return t.name == "score"; });
  if (found == arrays.end()) {
    return make_error(ErrorCode::kInvalidArgument, "{}: no array \"score\"", path);
  }
  const HostTensor& values = found->tensor;
  if (values.shape() != Shape{static_cast<std::int64_t>(data.examples.size())} ||
      !is_float(values.dtype())) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: score is {} {}, the dataset has {} examples: made for another dataset?",
                      path, to_text(values.dtype()), to_text(values.shape()), data.examples.size());
  }
  ScoredModel out{fs::path(path).stem().string(), "-", "", {}, {}, {}};
  for (std::int64_t i = 0; i < values.size(); ++i) {
    out.scores.push_back(static_cast<float>(values.get_float(i)));
    if (split.part[static_cast<std::size_t>(i)] != dataset::kTest ||
        std::isfinite(out.scores.back())) {
      continue;
    }
    return make_error(ErrorCode::kInvalidArgument, "{}: the score of example {} is not finite",
                      path, i);
  }
  return out;
}

ModelScorer::ModelScorer(const dataset::Dataset& data, std::vector<std::size_t> examples,
                         Options options)
    : data_(data), examples_(std::move(examples)), o_(std::move(options)) {
  if (whole()) return;
  part_.machines = data.machines;
  part_.tasks = data.tasks;
  for (const std::size_t i : examples_) part_.examples.push_back(data.examples[i]);
}

Result<const dataset::FeatureStore*> ModelScorer::features(feature::Rows kind) {
  std::unique_ptr<dataset::FeatureStore>& store = stores_[kind];
  if (store) return store.get();
  if (!whole() && !temporary_) {
    TESSERA_TRY(TemporaryFolder made, TemporaryFolder::make("eval"));
    temporary_ = std::move(made);
  }
  const std::string& folder = whole() ? o_.features : temporary_->path();
  const auto progress = [&](std::size_t done, std::size_t total) {
    if (o_.progress)
      o_.progress(fmt::format("features per {}", feature::to_text(kind)), done, total);
  };
  TESSERA_TRY(store,
              dataset::open_features(whole() ? data_ : part_, kind, folder, o_.threads, progress));
  for (std::size_t n = 0; n < examples_.size(); ++n) {
    if ((*store)[position(n)].seconds <= 0) unreadable_.push_back(examples_[n]);
  }
  std::sort(unreadable_.begin(), unreadable_.end());
  unreadable_.erase(std::unique(unreadable_.begin(), unreadable_.end()), unreadable_.end());
  return store.get();
}

Result<std::vector<float>> ModelScorer::run_all(const dataset::FeatureStore& store, bool context,
                                                const std::string& what, const Run& run) const {
  std::vector<float> scores(data_.examples.size(), 0);
  feature::FeatureSet set;
  for (std::size_t begin = 0; begin < examples_.size(); begin += kChunk) {
    const std::size_t end = std::min(examples_.size(), begin + kChunk);
    set.clear();
    set.columns = static_cast<std::size_t>(store.columns());
    set.context_columns = context ? static_cast<std::size_t>(store.context_columns()) : 0;
    for (std::size_t n = begin; n < end; ++n) add(store[position(n)], context, &set);
    TESSERA_TRY(const std::vector<float> chunk, run(set));
    for (std::size_t n = begin; n < end; ++n) scores[examples_[n]] = chunk[n - begin];
    if (o_.progress) o_.progress(what, end, examples_.size());
  }
  return scores;
}

Result<void> ModelScorer::check_scores(const std::string& path, const dataset::FeatureStore& store,
                                       const std::vector<float>& scores) const {
  std::size_t readable = 0, wrong = 0;
  for (std::size_t n = 0; n < examples_.size(); ++n) {
    if (store[position(n)].seconds <= 0) continue;
    ++readable;
    wrong += std::isfinite(scores[examples_[n]]) ? 0 : 1;
  }
  if (wrong == 0) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "{}: {} of {} scores are not finite: such a model orders nothing", path, wrong,
                    readable);
}

void ModelScorer::add_standardised(const std::vector<float>& scores,
                                   std::vector<float>* sum) const {
  struct Moments {
    double n = 0, sum = 0, squares = 0;
  };
  std::map<std::pair<std::int32_t, std::int32_t>, Moments> lists;
  // Unreadable examples may have anything.
  const auto counts = [&](std::size_t i) {
    return std::isfinite(scores[i]) &&
           !std::binary_search(unreadable_.begin(), unreadable_.end(), i);
  };
  for (const std::size_t i : examples_) {
    if (!counts(i)) continue;
    const double s = static_cast<double>(scores[i]);
    Moments& m = lists[{data_.examples[i].task, data_.examples[i].machine}];
    m.n += 1;
    m.sum += s;
    m.squares += s * s;
  }
  for (const std::size_t i : examples_) {
    if (!counts(i)) continue;
    const double s = static_cast<double>(scores[i]);
    const Moments& m = lists[{data_.examples[i].task, data_.examples[i].machine}];
    const double mean = m.sum / m.n;
    const double variance = m.squares / m.n - mean * mean;
    if (variance > 0) (*sum)[i] += static_cast<float>((s - mean) / std::sqrt(variance));
  }
}

Result<ScoredModel> ModelScorer::score(const std::vector<std::string>& paths) {
  if (paths.size() == 1) return score(paths.front());
  if (paths.empty() || paths.size() > model::kMostMembers) {
    return make_error(ErrorCode::kInvalidArgument, "{} models to judge together: 1 to {}",
                      paths.size(), model::kMostMembers);
  }
  ScoredModel out;
  out.together = true;
  out.scores.assign(data_.examples.size(), 0);
  std::set<std::string> names, losses;
  std::vector<nn::Notes> notes;
  for (const std::string& path : paths) {
    TESSERA_TRY(const ScoredModel one, score(path));
    names.insert(one.name);
    losses.insert(one.loss);
    add_standardised(one.scores, &out.scores);
    notes.push_back(one.notes);
  }
  out.name = fmt::format("{} x{}", fmt::join(names, "+"), paths.size());
  out.loss = fmt::format("{}", fmt::join(losses, "+"));
  out.notes = nn::notes_of_all(notes);
  return out;
}

Result<ScoredModel> ModelScorer::score(const std::string& path) {
  const Result<model::ModelFile> trees = model::read_model_file(path);
  if (trees) return score_trees(path, *trees);
  // Every other file is taken for a network, whose reader says what is wrong with it.
  if (trees.error().code != ErrorCode::kInvalidArgument) return trees.error();
  return score_network(path);
}

Result<ScoredModel> ModelScorer::score_network(const std::string& path) {
  TESSERA_TRY(nn::TrainedNetwork network, nn::load_network(path));
  TESSERA_TRY(const nn::NetworkEntry* entry, nn::find_network(network.spec.network));
  TESSERA_TRY(const dataset::FeatureStore* store, features(entry->rows));
  if (network.row_schema != store->row_schema() || network.spec.columns != store->columns()) {
    return other_schema(path, feature::to_text(entry->rows), network.row_schema,
                        store->row_schema());
  }
  const bool context = network.spec.context > 0;
  if (context && (network.context_schema != store->context_schema() ||
                  network.spec.context != store->context_columns())) {
    return other_schema(path, "a context", network.context_schema, store->context_schema());
  }
  const auto loss = network.notes.find("loss");
  ScoredModel out{network.spec.network,
                  loss == network.notes.end() ? "-" : loss->second,
                  network.spec.network,
                  network.notes,
                  {}};
  Result<std::unique_ptr<infer::NetworkScorer>> scorer =
      infer::NetworkScorer::make(std::move(network), o_.threads);
  if (!scorer) return scorer.error().with_context(path);
  const Run run = [&](const feature::FeatureSet& set) -> Result<std::vector<float>> {
    TESSERA_TRY(infer::NetworkOutputs outputs, (*scorer)->run(set));
    return std::move(outputs.score);
  };
  TESSERA_TRY(out.scores, run_all(*store, context, out.name, run));
  TESSERA_DO(check_scores(path, *store, out.scores));
  return out;
}

Result<ScoredModel> ModelScorer::score_trees(const std::string& path,
                                             const model::ModelFile& file) {
  TESSERA_TRY(const std::unique_ptr<model::CostModel> trees, model::load_model(path, o_.threads));
  const Result<feature::Rows> rows = feature::rows_from_text(trees->needs().rows);
  if (!rows) {
    return make_error(ErrorCode::kInvalidArgument, "{}: reads {} features, which datasets lack",
                      path, trees->needs().rows);
  }
  TESSERA_TRY(const dataset::FeatureStore* store, features(*rows));
  if (file.schema != store->row_schema()) {
    return other_schema(path, feature::to_text(*rows), file.schema, store->row_schema());
  }
  ScoredModel out{file.kind, file.objective, "", file.notes, {}, {}};
  const Run run = [&](const feature::FeatureSet& set) -> Result<std::vector<float>> {
    return trees->predict(set);
  };
  TESSERA_TRY(out.scores, run_all(*store, false, out.name, run));
  TESSERA_DO(check_scores(path, *store, out.scores));
  return out;
}

}  // namespace tessera::app
