// Boosted regression trees over rows, summed over the rows of a candidate. Hides the library.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/learn/model/cost_model.h"

namespace tessera::model {

struct TreeOptions {
  int depth = 6;
  double eta = 0.25;
  int max_rounds = 200;   // with held-out candidates, which stop it earlier
  int plain_rounds = 60;  // without
  int patience = 15;      // rounds without a better loss on held-out candidates
  std::string objective = "rank";
  std::uint64_t seed = 1;
};

class Trees {
 public:
  // kUnavailable in builds without the library.
  static Result<Trees> make();
  Trees(Trees&&) noexcept;
  Trees& operator=(Trees&&) noexcept;
  ~Trees();

  // `weights`: one a candidate, 0: left out. `data` has been checked.
  Result<void> fit(const TrainingSet& data, std::span<const float> weights, const TreeOptions& tree,
                   const FitOptions& options);
  // One sum a candidate. The columns are those of the fit.
  std::vector<float> predict(const feature::FeatureSet& features) const;
  Result<std::string> to_bytes() const;
  Result<void> from_bytes(const std::string& bytes, int threads);

 private:
  struct Impl;
  explicit Trees(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::model
