#include "tessera/learn/model/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tessera/support/rng.h"

namespace tessera::model {
namespace {

// Partners drawn for each candidate and round: all pairs would cost more than the trees.
constexpr int kPartners = 12;

class Regression final : public Loss {
 public:
  explicit Regression(const TrainingSet& data) : data_(data) {}

  void derivatives(std::span<const float> scores, std::span<const float> weights,
                   Derivatives* out) override {
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const float weight = weights[i] * importance(i);
      out->first[i] = weight * (scores[i] - data_.labels[i]);
      out->second[i] = weight;
    }
  }
  double held_out(std::span<const float> scores, std::span<const float> weights) const override {
    double sum = 0, count = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (weights[i] != 0) continue;
      const double error = scores[i] - data_.labels[i];
      sum += importance(i) * error * error;
      count += importance(i);
    }
    return count > 0 ? sum / count : 0;
  }

 private:
  // Search only asks which of the good are best; the slow must merely stay apart from them.
  float importance(std::size_t i) const { return 0.1f + data_.labels[i]; }

  const TrainingSet& data_;
};

class Rank final : public Loss {
 public:
  Rank(const TrainingSet& data, std::uint64_t seed) : data_(data), rng_(seed), test_rng_(seed + 1) {
    std::map<std::int32_t, std::vector<std::uint32_t>> groups;
    for (std::size_t i = 0; i < data.groups.size(); ++i) {
      groups[data.groups[i]].push_back(static_cast<std::uint32_t>(i));
    }
    for (auto& [id, members] : groups) groups_.push_back(std::move(members));
  }

  void derivatives(std::span<const float> scores, std::span<const float> weights,
                   Derivatives* out) override {
    std::fill(out->first.begin(), out->first.end(), 0.f);
    std::fill(out->second.begin(), out->second.end(), 0.f);
    for (const std::vector<std::uint32_t>& group : groups_) {
      for (const std::uint32_t i : group) {
        if (weights[i] == 0) continue;
        for (int k = 0; k < kPartners; ++k) {
          const std::uint32_t j = partner(group, rng_);
          add_pair(scores, i, j, weights[i] * weights[j], out);
        }
      }
    }
  }

  double held_out(std::span<const float> scores, std::span<const float> weights) const override {
    double sum = 0, count = 0;
    Rng rng = test_rng_;  // the same pairs at every call
    for (const std::vector<std::uint32_t>& group : groups_) {
      for (const std::uint32_t i : group) {
        if (weights[i] != 0) continue;
        for (int k = 0; k < 2 * kPartners; ++k) {
          const std::uint32_t j = partner(group, rng);
          const double gap = data_.labels[i] - data_.labels[j];
          const double lead = (gap > 0 ? 1 : -1) * (scores[i] - scores[j]);
          sum += std::abs(gap) * std::log1p(std::exp(-lead));
          count += std::abs(gap);
        }
      }
    }
    return count > 0 ? sum / count : 0;
  }

 private:
  static std::uint32_t partner(const std::vector<std::uint32_t>& group, Rng& rng) {
    return group[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(group.size())))];
  }

  void add_pair(std::span<const float> scores, std::uint32_t i, std::uint32_t j, float weight,
                Derivatives* out) const {
    const float gap = data_.labels[i] - data_.labels[j];
    if (gap == 0 || weight == 0) return;
    const std::uint32_t good = gap > 0 ? i : j, bad = gap > 0 ? j : i;
    const float wrong = 1 / (1 + std::exp(scores[good] - scores[bad]));
    const float w = weight * std::abs(gap);
    const float slope = w * wrong, curvature = w * std::max(wrong * (1 - wrong), 1e-3f);
    out->first[good] -= slope;
    out->first[bad] += slope;
    out->second[good] += curvature;
    out->second[bad] += curvature;
  }

  const TrainingSet& data_;
  Rng rng_, test_rng_;
  std::vector<std::vector<std::uint32_t>> groups_;
};

}  // namespace

std::vector<float> CostModel::spread(const feature::FeatureSet&) const { return {}; }
std::vector<float> CostModel::log_time(const feature::FeatureSet&) const { return {}; }

Result<void> check_training_set(const TrainingSet& data) {
  const std::size_t n = data.features.candidates();
  if (n == 0 || data.features.columns == 0) {
    return make_error(ErrorCode::kInvalidArgument, "no candidates to fit a model to");
  }
  if (data.labels.size() != n || data.groups.size() != n ||
      (!data.base.empty() && data.base.size() != n)) {
    return make_error(ErrorCode::kInvalidArgument, "{} candidates, {} labels, {} groups, {} bases",
                      n, data.labels.size(), data.groups.size(), data.base.size());
  }
  std::size_t rows = 0;
  for (const std::int32_t count : data.features.row_count) {
    if (count < 1) return make_error(ErrorCode::kInvalidArgument, "a candidate without rows");
    rows += static_cast<std::size_t>(count);
  }
  if (rows * data.features.columns != data.features.values.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{} feature values for {} rows of {}",
                      data.features.values.size(), rows, data.features.columns);
  }
  const auto finite = [](float v) { return std::isfinite(v); };
  if (!std::all_of(data.features.values.begin(), data.features.values.end(), finite) ||
      !std::all_of(data.labels.begin(), data.labels.end(), finite) ||
      !std::all_of(data.base.begin(), data.base.end(), finite)) {
    return make_error(ErrorCode::kInvalidArgument, "features or labels that are not finite");
  }
  return {};
}

float base_scale(const std::string& objective, const TrainingSet& data,
                 std::span<const float> scores, std::uint64_t seed) {
  double sum = 0, squares = 0;
  for (const float s : scores) sum += s, squares += static_cast<double>(s) * s;
  const auto n = static_cast<double>(scores.size());
  const double variance = n > 0 ? squares / n - (sum / n) * (sum / n) : 0;
  if (!(variance > 1e-12)) return 0;
  const std::unique_ptr<Loss> loss = make_loss(objective, data, seed);
  const std::vector<float> held_out(scores.size(), 0.f);
  double best_loss = std::numeric_limits<double>::infinity(), best = 0;
  for (const double deviation : {0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0}) {
    const double factor = deviation / std::sqrt(variance);
    std::vector<float> scaled;
    for (const float s : scores) scaled.push_back(static_cast<float>(factor * (s - sum / n)));
    const double l = loss->held_out(scaled, held_out);
    if (l < best_loss) best_loss = l, best = factor;
  }
  return static_cast<float>(best);
}

std::unique_ptr<Loss> make_loss(const std::string& objective, const TrainingSet& data,
                                std::uint64_t seed) {
  if (objective == "regression") return std::make_unique<Regression>(data);
  return std::make_unique<Rank>(data, seed);
}

}  // namespace tessera::model
