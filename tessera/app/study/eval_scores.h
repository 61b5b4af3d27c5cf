// What models say about the examples of a dataset.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/learn/dataset/features.h"
#include "tessera/learn/model/model_file.h"
#include "tessera/scheduling/feature/feature_set.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::app {

struct ScoredModel {
  std::string name, loss, network;  // network: of nn::network_table(), or empty
  std::map<std::string, std::string> notes;
  std::vector<float> scores;  // by example of the dataset; 0 where none was asked for
  bool together = false;      // of several models: in deviations of each, only an order
};

// kInvalidArgument: no array "score" with one number for every example, or no finite one for an
// example of the test part of `split`.
Result<ScoredModel> read_scores(const std::string& path, const dataset::Dataset& data,
                                const dataset::Split& split);

// Scores some examples of a dataset with models in files; features are made once for each kind.
class ModelScorer {
 public:
  struct Options {
    std::string features;  // folder of the features of the whole dataset; empty: a temporary one
    int threads = 1;
    std::function<void(const std::string& what, std::size_t done, std::size_t total)> progress;
  };

  ModelScorer(const dataset::Dataset& data, std::vector<std::size_t> examples, Options options);
  ModelScorer(const ModelScorer&) = delete;
  ModelScorer& operator=(const ModelScorer&) = delete;

  // A trained network or saved trees. kInvalidArgument: it reads other features than datasets have,
  // or a score is not finite.
  Result<ScoredModel> score(const std::string& path);
  // Several that judge together: the mean of their scores, each in its deviations within the
  // candidates of a task on a machine.
  Result<ScoredModel> score(const std::vector<std::string>& paths);

  // Examples that no model could read so far.
  const std::vector<std::size_t>& unreadable() const { return unreadable_; }

 private:
  using Run = std::function<Result<std::vector<float>>(const feature::FeatureSet&)>;

  Result<ScoredModel> score_network(const std::string& path);
  Result<ScoredModel> score_trees(const std::string& path, const model::ModelFile& file);
  Result<const dataset::FeatureStore*> features(feature::Rows kind);
  Result<std::vector<float>> run_all(const dataset::FeatureStore& store, bool context,
                                     const std::string& what, const Run& run) const;
  // kInvalidArgument: a readable example has a score that is not finite.
  Result<void> check_scores(const std::string& path, const dataset::FeatureStore& store,
                            const std::vector<float>& scores) const;
  // Adds the scores of examples_ to `sum`.
  void add_standardised(const std::vector<float>& scores, std::vector<float>* sum) const;
  // The number of examples_[n] in a store.
  std::size_t position(std::size_t n) const { return whole() ? examples_[n] : n; }
  bool whole() const { return !o_.features.empty(); }

  const dataset::Dataset& data_;
  std::vector<std::size_t> examples_;
  Options o_;
  dataset::Dataset part_;  // only examples_, unless features of the whole are kept
  std::optional<TemporaryFolder> temporary_;
  std::map<feature::Rows, std::unique_ptr<dataset::FeatureStore>> stores_;
  std::vector<std::size_t> unreadable_;
};

}  // namespace tessera::app
