// Gradient-boosted trees on bootstrap samples of the candidates: their mean, and how far they
// disagree.
#include <cmath>

#include "tessera/learn/model/fit.h"
#include "tessera/learn/model/model_file.h"
#include "tessera/learn/model/models/models.h"
#include "tessera/learn/model/models/trees.h"
#include "tessera/support/rng.h"

namespace tessera::model {
namespace {

constexpr std::size_t kMembers = 5;

class Ensemble final : public CostModel {
 public:
  Ensemble(ModelOptions options, std::vector<Trees> members)
      : options_(std::move(options)), members_(std::move(members)) {}

  std::vector<float> predict(const feature::FeatureSet& features) const override {
    return moments(features).mean;
  }
  std::vector<float> spread(const feature::FeatureSet& features) const override {
    return moments(features).deviation;
  }
  Judgement judge(const feature::FeatureSet& features) const override {
    Moments both = moments(features);
    return {std::move(both.mean), std::move(both.deviation)};
  }

  Result<void> fit(const TrainingSet& data, const FitOptions& options) override {
    TESSERA_DO(check_training_set(data));
    FitOptions each = options;
    each.time_limit_s /= static_cast<double>(members_.size());
    for (std::size_t m = 0; m < members_.size(); ++m) {
      TreeOptions tree;
      tree.objective = options_.objective;
      tree.seed = options_.seed + 1000003 * (m + 1);
      TESSERA_DO(members_[m].fit(data, bootstrap(data.labels.size(), tree.seed), tree, each));
    }
    columns_ = data.features.columns;
    return {};
  }

  bool ready() const override { return columns_ > 0; }
  Needs needs() const override { return {rows_of_schema(options_.schema)}; }

  Result<void> save(const std::string& path) const override {
    if (!ready()) return make_error(ErrorCode::kInvalidArgument, "the model was never fitted");
    ModelFile file{"gbt_ensemble", options_.objective, options_.schema, columns_, {}, {}};
    for (const Trees& member : members_) {
      TESSERA_TRY(std::string bytes, member.to_bytes());
      file.parts.push_back(std::move(bytes));
    }
    return write_model_file(path, file);
  }

  Result<void> load(const std::string& path) override {
    TESSERA_TRY(const ModelFile file, read_model_file(path, "gbt_ensemble", options_.schema));
    if (file.parts.size() != members_.size() || file.columns == 0) {
      return make_error(ErrorCode::kIo, "{}: damaged model file: {} parts, {} columns", path,
                        file.parts.size(), file.columns);
    }
    for (std::size_t m = 0; m < members_.size(); ++m) {
      TESSERA_DO(members_[m].from_bytes(file.parts[m], options_.threads));
    }
    columns_ = file.columns;
    options_.objective = file.objective;
    options_.schema = file.schema;
    return {};
  }

 private:
  struct Moments {
    std::vector<float> mean, deviation;
  };

  // How often each candidate is drawn when as many are drawn as there are.
  static std::vector<float> bootstrap(std::size_t n, std::uint64_t seed) {
    std::vector<float> counts(n, 0);
    Rng rng(seed);
    for (std::size_t i = 0; i < n; ++i) {
      counts[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(n)))] += 1;
    }
    return counts;
  }

  Moments moments(const feature::FeatureSet& features) const {
    TESSERA_CHECK(ready() && features.columns == columns_, "ensemble: {} columns, fitted to {}",
                  features.columns, columns_);
    const std::size_t n = features.candidates();
    const auto count = static_cast<float>(members_.size());
    std::vector<float> squares(n, 0);
    Moments out{std::vector<float>(n, 0), std::vector<float>(n, 0)};
    for (const Trees& member : members_) {
      const std::vector<float> scores = member.predict(features);
      for (std::size_t i = 0; i < n; ++i) {
        out.mean[i] += scores[i] / count;
        squares[i] += scores[i] * scores[i] / count;
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      out.deviation[i] = std::sqrt(std::max(0.f, squares[i] - out.mean[i] * out.mean[i]));
    }
    return out;
  }

  ModelOptions options_;
  std::vector<Trees> members_;
  std::size_t columns_ = 0;
};

}  // namespace

Result<std::unique_ptr<CostModel>> make_ensemble(const ModelOptions& options) {
  std::vector<Trees> members;
  for (std::size_t m = 0; m < kMembers; ++m) {
    TESSERA_TRY(Trees trees, Trees::make());
    members.push_back(std::move(trees));
  }
  return std::unique_ptr<CostModel>(std::make_unique<Ensemble>(options, std::move(members)));
}

}  // namespace tessera::model
