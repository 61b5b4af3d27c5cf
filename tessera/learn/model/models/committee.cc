// Several models that were learned elsewhere, judging together: the mean of their scores, each in
// deviations of its own, and how far they disagree.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tessera/learn/model/models/models.h"

namespace tessera::model {
namespace {

using SharedModel = std::shared_ptr<const CostModel>;

// One member, and where its scores lie on one task. Unknown: as they are.
struct Member {
  SharedModel model;
  float mean = 0, deviation = 1;
};

std::optional<Member> standardised(const SharedModel& model, const feature::FeatureSet& sample) {
  const std::vector<float> scores = model->predict(sample);
  double n = 0, sum = 0, squares = 0;
  for (const float s : scores) {
    if (!std::isfinite(s)) continue;
    n += 1;
    sum += static_cast<double>(s);
    squares += static_cast<double>(s) * static_cast<double>(s);
  }
  if (n < 2) return std::nullopt;
  const double variance = squares / n - sum / n * sum / n;
  Member out{model, static_cast<float>(sum / n), 1};
  // One that scores all alike has no say.
  out.deviation = variance > 1e-12 ? static_cast<float>(std::sqrt(variance))
                                   : std::numeric_limits<float>::infinity();
  return out;
}

class Committee final : public CostModel {
 public:
  explicit Committee(std::vector<Member> members) : members_(std::move(members)) {}

  std::vector<float> predict(const feature::FeatureSet& features) const override {
    return judge(features).scores;
  }
  std::vector<float> spread(const feature::FeatureSet& features) const override {
    return judge(features).spread;
  }

  Judgement judge(const feature::FeatureSet& features) const override {
    const std::size_t n = features.candidates();
    std::vector<double> count(n, 0), sum(n, 0), squares(n, 0);
    for (const Member& m : members_) {
      const std::vector<float> scores = m.model->predict(features);
      for (std::size_t i = 0; i < n; ++i) {
        if (!std::isfinite(scores[i])) continue;
        const double s = static_cast<double>((scores[i] - m.mean) / m.deviation);
        count[i] += 1;
        sum[i] += s;
        squares[i] += s * s;
      }
    }
    Judgement out;
    for (std::size_t i = 0; i < n; ++i) {
      const double mean = sum[i] / count[i];  // NaN where no member can tell
      const double variance = (squares[i] - count[i] * mean * mean) / std::max(1.0, count[i] - 1);
      out.scores.push_back(static_cast<float>(mean));
      out.spread.push_back(static_cast<float>(std::sqrt(std::max(0.0, variance))));
    }
    return out;
  }

  std::vector<float> log_time(const feature::FeatureSet& features) const override {
    std::vector<float> sum(features.candidates(), 0);
    float told = 0;
    for (const Member& m : members_) {
      const std::vector<float> times = m.model->log_time(features);
      if (times.size() != sum.size()) continue;
      told += 1;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += times[i];
    }
    if (told == 0) return {};
    for (float& s : sum) s /= told;
    return sum;
  }

  // What each of them knows.
  std::int64_t examples_of(const std::string& kind) const override {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const Member& m : members_) least = std::min(least, m.model->examples_of(kind));
    return least;
  }

  int most_threads() const override {
    int most = 0;
    for (const Member& m : members_) {
      if (m.model->most_threads() == 0) return 0;
      most = std::max(most, m.model->most_threads());
    }
    return most;
  }

  std::string last_error() const override {
    for (const Member& m : members_) {
      if (std::string error = m.model->last_error(); !error.empty()) return error;
    }
    return "";
  }

  std::shared_ptr<const CostModel> for_task(const feature::FeatureSet& sample) const override {
    std::vector<Member> members;
    for (const Member& m : members_) {
      if (std::optional<Member> known = standardised(m.model, sample)) members.push_back(*known);
    }
    if (members.empty()) return nullptr;
    return std::make_shared<Committee>(std::move(members));
  }

  bool per_task() const override { return true; }
  Needs needs() const override { return members_.front().model->needs(); }
  bool ready() const override { return true; }
  Result<void> fit(const TrainingSet&, const FitOptions&) override { return unsupported(); }
  Result<void> save(const std::string&) const override { return unsupported(); }
  Result<void> load(const std::string&) override { return unsupported(); }

 private:
  static Error unsupported() {
    return make_error(ErrorCode::kUnsupported, "several models are trained and kept one by one");
  }

  std::vector<Member> members_;  // at least one
};

}  // namespace

SharedModel make_committee(const std::vector<SharedModel>& models) {
  std::vector<Member> members;
  members.reserve(models.size());
  for (const SharedModel& m : models) members.push_back({m});
  return std::make_shared<Committee>(std::move(members));
}

Result<std::shared_ptr<const CostModel>> load_models(const std::vector<std::string>& paths,
                                                     int threads) {
  if (paths.empty() || paths.size() > kMostMembers) {
    return make_error(ErrorCode::kInvalidArgument, "{} models to judge together: 1 to {}",
                      paths.size(), kMostMembers);
  }
  std::vector<SharedModel> models;
  for (const std::string& path : paths) {
    TESSERA_TRY(SharedModel model, load_model(path, threads));
    if (!models.empty() && model->needs() != models.front()->needs()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{} reads other features than {}: they cannot judge together", path,
                        paths.front());
    }
    models.push_back(std::move(model));
  }
  return models.size() == 1 ? models.front() : make_committee(models);
}

}  // namespace tessera::model
