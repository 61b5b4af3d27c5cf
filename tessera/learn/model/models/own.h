// Cost models of users, loaded by a word in front of their name.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "tessera/learn/model/cost_model.h"

namespace tessera::model {

// What only gives scores; where it cannot, NaN, and last_error() says why. It is not asked again.
class OwnModel : public CostModel {
 public:
  std::vector<float> predict(const feature::FeatureSet& features) const override;
  std::string last_error() const override;
  Needs needs() const override { return {rows_}; }
  bool ready() const override { return true; }
  Result<void> fit(const TrainingSet&, const FitOptions&) override { return unsupported(); }
  Result<void> save(const std::string&) const override { return unsupported(); }
  Result<void> load(const std::string&) override { return unsupported(); }

 protected:
  explicit OwnModel(std::string rows) : rows_(std::move(rows)) {}
  // One call at a time. The error names the model.
  virtual Result<std::vector<float>> score(const feature::FeatureSet& features) const = 0;

 private:
  static Error unsupported();

  std::string rows_;
  mutable std::mutex mutex_;
  mutable std::string error_;
};

// What a model of one's own may read.
Result<void> check_own_rows(const std::string& name, const std::string& rows);
// A score for each candidate, each finite. `name` begins the error.
Result<void> check_own_scores(const std::string& name, const std::vector<float>& scores,
                              std::size_t candidates);

// kInvalidArgument: the program cannot be started, or does not answer as
// docs/reference/search.md says.
Result<std::unique_ptr<CostModel>> load_own_program(const std::string& command);
// kInvalidArgument: the file cannot be loaded, or is not a cost model.
Result<std::unique_ptr<CostModel>> load_own_library(const std::string& path);

}  // namespace tessera::model
