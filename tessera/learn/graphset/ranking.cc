#include "tessera/learn/graphset/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/learn/dataset/metrics.h"
#include "tessera/learn/graphset/summed_times.h"
#include "tessera/support/hash.h"
#include "tessera/support/rng.h"

namespace tessera::graphset {
namespace {

constexpr int kDepths[] = {1, 5, 10, 100};

// The fastest time over each time: what the metrics of candidates read.
std::vector<float> labels_of(const std::vector<double>& costs) {
  const double best = *std::min_element(costs.begin(), costs.end());
  std::vector<float> out;
  out.reserve(costs.size());
  for (const double cost : costs) out.push_back(static_cast<float>(best / cost));
  return out;
}

double mean_cost(const ConfigGraph& graph, const std::vector<std::int64_t>& group) {
  double sum = 0;
  for (const std::int64_t i : group) sum += graph.cost(i);
  return sum / static_cast<double>(group.size());
}

double tau(const std::vector<double>& a, const std::vector<double>& b) {
  return dataset::task_metrics(labels_of(a), labels_of(b), kDepths).kendall;
}

// Configurations measured again by noise that is drawn from what repeated ones show. Drawing treats
// all alike, which they are not: the noise is scaled until drawn measurements of a configuration
// agree with each other as well as the real ones do.
class RepeatNoise {
 public:
  explicit RepeatNoise(std::uint64_t seed) : seed_(seed), rng_(seed) {}

  // `summed`: 0 where there is none.
  void add(const std::vector<double>& costs, double mean, double summed) {
    truths_.push_back(mean);
    summed_.push_back(summed);
    counts_.push_back(costs.size());
    if (costs.size() < 2) return;
    const auto n = static_cast<double>(costs.size());
    // The mean has moved towards each of its measurements.
    for (const double cost : costs) spread_.push_back((cost / mean - 1) * std::sqrt(n / (n - 1)));
    const auto one = static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(costs.size())));
    seen_one_.push_back(costs[one]);
    seen_rest_.push_back((mean * n - costs[one]) / (n - 1));
    seen_summed_.push_back(summed);
  }

  double agreement() const { return tau(seen_one_, seen_rest_); }
  double summed() const {
    const bool all = std::all_of(summed_.begin(), summed_.end(), [](double s) { return s > 0; });
    return all ? tau(seen_one_, seen_summed_) : 0;
  }
  // Kendall's tau of the right times with the means of as many drawn measurements.
  double ceiling() {
    const bool enough = seen_one_.size() >= kFewestRepeated;
    if (enough && summed() > std::max(0.0, agreement())) truths_ = summed_;
    std::vector<double> measured, one, rest;
    draw(scale(), &measured, &one, &rest);
    return tau(truths_, measured);
  }

 private:
  double scale() const {
    if (seen_one_.size() < kFewestRepeated) return 1;
    const double seen = agreement();
    double low = 1 / kMostScale, high = kMostScale;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = std::sqrt(low * high);
      std::vector<double> measured, one, rest;
      draw(middle, &measured, &one, &rest);
      (tau(one, rest) > seen ? low : high) = middle;
    }
    return std::sqrt(low * high);
  }

  // Of all: the mean of the drawn. Of repeated ones: one, and the mean of the others.
  void draw(double scale, std::vector<double>* measured, std::vector<double>* one,
            std::vector<double>* rest) const {
    Rng rng(seed_);
    for (std::size_t i = 0; i < truths_.size(); ++i) {
      double sum = 0, last = 0;
      for (std::size_t k = 0; k < counts_[i]; ++k) {
        const auto at =
            static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(spread_.size())));
        // No noise makes a time vanish.
        last = truths_[i] * std::max(kLeastFactor, 1 + scale * spread_[at]);
        sum += last;
      }
      const auto n = static_cast<double>(counts_[i]);
      measured->push_back(sum / n);
      if (counts_[i] < 2) continue;
      one->push_back(last);
      rest->push_back((sum - last) / (n - 1));
    }
  }

  static constexpr std::size_t kFewestRepeated = 20;
  static constexpr double kMostScale = 4, kLeastFactor = 1e-3;
  static constexpr int kHalvings = 10;

  std::uint64_t seed_;
  Rng rng_;
  std::vector<double> truths_, summed_, spread_, seen_one_, seen_rest_, seen_summed_;
  std::vector<std::size_t> counts_;
};

}  // namespace

ConfigGraph merge_equal(const ConfigGraph& graph) {
  const std::vector<std::vector<std::int64_t>> groups = equal_configs(graph);
  std::vector<std::int64_t> first;
  first.reserve(groups.size());
  for (const auto& group : groups) first.push_back(group.front());
  ConfigGraph out = take_configs(graph, first);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    double time = 0;
    for (const std::int64_t i : groups[g]) {
      time += graph.cost(i) / static_cast<double>(groups[g].size());
    }
    if (graph.kind == Kind::kTile) time *= static_cast<double>(out.normalizer_ns[g]);
    out.runtime_ns[g] = std::llround(time);
  }
  return out;
}

Json to_json(const Ranking& ranking) {
  Json slowdown = Json::object();
  for (const auto& [k, value] : ranking.slowdown) slowdown[std::to_string(k)] = value;
  return {{"name", ranking.name},
          {"configs", ranking.configs},
          {"tau", ranking.tau},
          {"pairwise", ranking.pairwise},
          {"slowdown", slowdown}};
}

Ranking rank(const ConfigGraph& graph, std::span<const float> scores) {
  TESSERA_CHECK(scores.size() == graph.runtime_ns.size(), "{} scores of {} configurations",
                scores.size(), graph.runtime_ns.size());
  std::vector<double> costs;
  std::vector<float> timed;
  for (std::int64_t i = 0; i < graph.size(); ++i) {
    if (graph.cost(i) <= 0) continue;
    costs.push_back(graph.cost(i));
    timed.push_back(scores[static_cast<std::size_t>(i)]);
  }
  Ranking out;
  out.name = graph.name;
  out.configs = static_cast<std::int64_t>(costs.size());
  if (costs.empty()) return out;
  const dataset::Metrics m = dataset::task_metrics(timed, labels_of(costs), kDepths);
  out.tau = m.kendall;
  out.pairwise = m.pairwise;
  out.slowdown = m.slowdown;
  return out;
}

Repeats study_repeats(const ConfigGraph& graph, std::uint64_t seed) {
  Repeats out;
  std::vector<double> noise;
  RepeatNoise again(seed);
  const std::vector<std::vector<std::int64_t>> groups = equal_configs(graph);
  const std::vector<double> sums = summed_times(graph, groups);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<std::int64_t>& group = groups[g];
    const double mean = mean_cost(graph, group);
    ++out.distinct;
    if (mean <= 0) continue;
    std::vector<double> costs;
    costs.reserve(group.size());
    for (const std::int64_t i : group) costs.push_back(graph.cost(i));
    again.add(costs, mean, sums.empty() ? 0 : sums[g]);
    if (group.size() < 2) continue;
    ++out.repeated;
    for (const double cost : costs) noise.push_back(std::abs(cost / mean - 1));
  }
  if (noise.empty()) return out;
  std::sort(noise.begin(), noise.end());
  out.median_noise = noise[noise.size() / 2];
  out.p95_noise = noise[noise.size() * 95 / 100];
  out.agreement = again.agreement();
  out.summed = again.summed();
  out.ceiling = again.ceiling();
  return out;
}

bool is_learned(const ConfigGraph& graph, std::int64_t config, double share) {
  const auto bytes =
      static_cast<std::size_t>(graph.places() * graph.config_columns()) * sizeof(float);
  const std::uint64_t hash =
      hash_bytes({reinterpret_cast<const char*>(graph.config(config)), bytes});
  return static_cast<double>(Rng(hash).next() >> 11) * 0x1p-53 < share;
}

ConfigGraph take_side(const ConfigGraph& graph, double share, bool learned) {
  std::vector<std::int64_t> configs;
  for (std::int64_t i = 0; i < graph.size(); ++i) {
    if (is_learned(graph, i, share) == learned) configs.push_back(i);
  }
  return take_configs(graph, configs);
}

}  // namespace tessera::graphset
