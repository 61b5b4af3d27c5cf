// A trained network, scored by code that Tessera compiled from its graph.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "tessera/learn/infer/network_scorer.h"
#include "tessera/learn/model/models/models.h"
#include "tessera/learn/model/row_schema.h"
#include "tessera/learn/nn/training_notes.h"

namespace tessera::model {
namespace {

// -log of the chance that a candidate runs at all, from its logit.
float doubt(float validity) {
  return validity > 0 ? std::log1p(std::exp(-validity))
                      : -validity + std::log1p(std::exp(validity));
}

class NeuralModel final : public CostModel {
 public:
  explicit NeuralModel(std::unique_ptr<infer::NetworkScorer> scorer)
      : scorer_(std::move(scorer)), kinds_(nn::kinds_of(scorer_->network().notes)) {}

  // A candidate that will not run is worth nothing however fast it would be.
  std::vector<float> predict(const feature::FeatureSet& features) const override {
    Result<infer::NetworkOutputs> out = run(features);
    if (!out.ok()) {
      return std::vector<float>(features.candidates(), std::numeric_limits<float>::quiet_NaN());
    }
    for (std::size_t i = 0; i < out->score.size(); ++i) out->score[i] -= doubt(out->validity[i]);
    return std::move(out->score);
  }

  std::vector<float> log_time(const feature::FeatureSet& features) const override {
    Result<infer::NetworkOutputs> out = run(features);
    if (!out.ok()) return {};
    for (float& t : out->log_time) t += static_cast<float>(scorer_->network().time_shift);
    return std::move(out->log_time);
  }

  std::int64_t examples_of(const std::string& kind) const override {
    const auto found = kinds_.find(kind);
    return found == kinds_.end() ? 0 : found->second;
  }
  int most_threads() const override { return nn::most_threads(scorer_->network().notes); }

  std::string last_error() const override {
    const std::lock_guard lock(mutex_);
    return error_;
  }

  Needs needs() const override {
    const feature::Rows rows = scorer_->rows();
    return {feature::to_text(rows), scorer_->network().spec.context > 0,
            rows == feature::Rows::kLoop};
  }

  Result<void> fit(const TrainingSet&, const FitOptions&) override {
    return make_error(ErrorCode::kUnsupported, "networks are trained by tessera train");
  }
  bool ready() const override { return true; }
  Result<void> save(const std::string& path) const override {
    return nn::save_network(scorer_->network(), path);
  }
  Result<void> load(const std::string& path) override {
    TESSERA_TRY(std::unique_ptr<CostModel> other, load_neural(path, 1));
    scorer_ = std::move(static_cast<NeuralModel&>(*other).scorer_);
    kinds_ = nn::kinds_of(scorer_->network().notes);
    return {};
  }

 private:
  // An instance for a number of rows that comes up late may fail to build.
  Result<infer::NetworkOutputs> run(const feature::FeatureSet& features) const {
    Result<infer::NetworkOutputs> out = scorer_->run(features);
    if (!out.ok()) {
      const std::lock_guard lock(mutex_);
      error_ = out.error().message;
    }
    return out;
  }

  std::unique_ptr<infer::NetworkScorer> scorer_;
  nn::KindCounts kinds_;
  mutable std::mutex mutex_;
  mutable std::string error_;
};

}  // namespace

Result<std::unique_ptr<CostModel>> load_neural(const std::string& path, int threads) {
  TESSERA_TRY(nn::TrainedNetwork network, nn::load_network(path));
  TESSERA_TRY(const nn::NetworkEntry* entry, nn::find_network(network.spec.network));
  const std::string rows = feature::to_text(entry->rows);
  TESSERA_TRY(const RowSchema schema, row_schema(rows));
  if (network.row_schema != schema.digest || network.spec.columns != schema.columns) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: made for {} features of schema {}, this program computes {}", path, rows,
                      network.row_schema, schema.digest);
  }
  const bool reads_context = network.spec.context > 0;
  if (reads_context && (network.context_schema != schema.context_digest ||
                        network.spec.context != schema.context_columns)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: made for a context of schema {}, this program computes {}", path,
                      network.context_schema, schema.context_digest);
  }
  Result<std::unique_ptr<infer::NetworkScorer>> scorer =
      infer::NetworkScorer::make(std::move(network), threads);
  if (!scorer.ok()) return scorer.error().with_context(path);
  return std::unique_ptr<CostModel>(std::make_unique<NeuralModel>(std::move(*scorer)));
}

}  // namespace tessera::model
