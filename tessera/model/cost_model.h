// A learned judge of candidates: four functions behind one table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/feature/feature_set.h"
#include "tessera/support/result.h"

namespace tessera::model {

// Measured candidates of one or several tasks. Labels compare only within a group.
struct TrainingSet {
  feature::FeatureSet features;
  std::vector<float> labels;         // throughput over the best of its task, in (0, 1]; failures: 0
  std::vector<std::int32_t> groups;  // per candidate: its task
};

struct FitOptions {
  double time_limit_s = 0;  // 0: none; stops adding to the model when it is over
  int threads = 1;
};

class CostModel {
 public:
  virtual ~CostModel() = default;

  // One score a candidate, higher is better; only the order matters. Needs a fit or a load.
  virtual std::vector<float> predict(const feature::FeatureSet& features) const = 0;
  // Uncertainty of each score, in its unit; empty for models that do not know it.
  virtual std::vector<float> spread(const feature::FeatureSet& features) const;
  // Replaces what was learnt before. kInvalidArgument for data that is empty, inconsistent or not
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
};

struct ModelEntry {
  const char* name;
  const char* doc;
  Result<std::unique_ptr<CostModel>> (*make)(const ModelOptions& options);
};

const std::vector<ModelEntry>& model_table();
// kInvalidArgument lists the names; kUnavailable when this build lacks the library behind it.
Result<std::unique_ptr<CostModel>> make_model(const std::string& name, const ModelOptions& options);

}  // namespace tessera::model
