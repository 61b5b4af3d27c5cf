// A learned judge of candidates: four functions behind one table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/scheduling/feature/feature_set.h"
#include "tessera/support/result.h"

namespace tessera::model {

// Measured candidates of one or several tasks. Labels compare only within a group.
struct TrainingSet {
  feature::FeatureSet features;
  std::vector<float> labels;         // throughput over the best of its task, in (0, 1]; failures: 0
  std::vector<std::int32_t> groups;  // per candidate: its task
  // Per candidate: what another model says already, and this one is to add to; empty: nothing.
  std::vector<float> base;
};

// What a model reads of a candidate.
struct Needs {
  // "statement", "loop", "curve" (feature::FeatureKind), "step" (schedule steps), or "decisions":
  // the vector of the candidate's own space.
  std::string rows = "statement";
  bool context = false;  // FeatureSet::context
  bool parents = false;  // FeatureSet::parents
  friend bool operator==(const Needs&, const Needs&) = default;
};

struct FitOptions {
  double time_limit_s = 0;  // 0: none; stops adding to the model when it is over
  int threads = 1;
  int rounds = 0, depth = 0;  // of boosted trees; 0: as suits the few candidates of a search
};

// Scores with the uncertainty of each, in their unit; `spread` is empty where it is not known.
struct Judgement {
  std::vector<float> scores, spread;
};

class CostModel {
 public:
  virtual ~CostModel() = default;

  // One score a candidate, higher is better; only the order matters. Needs a fit or a load. NaN
  // where it cannot tell: see last_error.
  virtual std::vector<float> predict(const feature::FeatureSet& features) const = 0;
  // Uncertainty of each score, in its unit; empty for models that do not know it.
  virtual std::vector<float> spread(const feature::FeatureSet& features) const;
  // Both at once, at the cost of one.
  virtual Judgement judge(const feature::FeatureSet& features) const {
    return {predict(features), spread(features)};
  }
  // Whether it should judge each task through for_task: the same judge, given candidates drawn at
  // random from the task's space. Several models compare only in deviations of their scores there.
  virtual bool per_task() const { return false; }
  virtual std::shared_ptr<const CostModel> for_task(const feature::FeatureSet& /*sample*/) const {
    return nullptr;  // as it is
  }
  // log2 of the seconds of each candidate; empty for models that only know an order, and when it
  // cannot tell.
  virtual std::vector<float> log_time(const feature::FeatureSet& features) const;
  // Timed candidates of that kind (space::candidate_kind) that it learned from; 0: none, or it does
  // not know.
  virtual std::int64_t examples_of(const std::string& /*kind*/) const { return 0; }
  // Most threads of any code that it learned from; 0: not known.
  virtual int most_threads() const { return 0; }
  // Why the latest predictions that failed did; empty: none has.
  virtual std::string last_error() const { return ""; }
  // Of the FeatureSets above; of a model that was neither fitted nor loaded: statement rows.
  virtual Needs needs() const = 0;
  // Replaces what was learned before. kInvalidArgument for data that is empty, inconsistent or not
  // finite.
  virtual Result<void> fit(const TrainingSet& data, const FitOptions& options) = 0;
  virtual bool ready() const = 0;
  virtual Result<void> save(const std::string& path) const = 0;
  // kInvalidArgument for files of another model or feature schema, kIo for damaged ones.
  virtual Result<void> load(const std::string& path) = 0;
};

struct ModelOptions {
  std::string objective = "rank";  // or "regression"
  std::uint64_t seed = 1;
  std::string schema;  // digest of the features it will see: refused on loading another
  int threads = 1;     // that score at once, of a model that is loaded
};

struct ModelEntry {
  const char* name;
  const char* doc;
  Result<std::unique_ptr<CostModel>> (*make)(const ModelOptions& options);
};

const std::vector<ModelEntry>& model_table();
// kInvalidArgument lists the names; kUnavailable when this build lacks the library behind it.
Result<std::unique_ptr<CostModel>> make_model(const std::string& name, const ModelOptions& options);

// Whatever model the file holds: trees that were saved, or a network that was trained; or one of
// the user's own, "exec:COMMAND" or "lib:FILE" (models/own.h). `threads` score at once.
// kInvalidArgument when it reads other features than this program computes, kIo when it is damaged.
Result<std::unique_ptr<CostModel>> load_model(const std::string& path, int threads = 1);

inline constexpr std::size_t kMostMembers = 8;  // each costs a scoring of its own

// Models that judge together: the mean of their scores in deviations, a spread, the mean of their
// times. One path: that model alone. Also kInvalidArgument when they read different features, or
// are none or more than kMostMembers.
Result<std::shared_ptr<const CostModel>> load_models(const std::vector<std::string>& paths,
                                                     int threads = 1);
// At least one model, all with the same needs.
std::shared_ptr<const CostModel> make_committee(
    const std::vector<std::shared_ptr<const CostModel>>& models);

}  // namespace tessera::model
