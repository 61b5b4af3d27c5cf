#include "tessera/graphset/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/dataset/metrics.h"
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
  std::vector<double> means, noise, spread;
  for (const std::vector<std::int64_t>& group : equal_configs(graph)) {
    const double mean = mean_cost(graph, group);
    ++out.distinct;
    if (mean <= 0) continue;
    means.push_back(mean);
    if (group.size() < 2) continue;
    ++out.repeated;
    const auto n = static_cast<double>(group.size());
    for (const std::int64_t i : group) {
      const double off = graph.cost(i) / mean - 1;
      noise.push_back(std::abs(off));
      // The mean has moved towards each of its measurements.
      spread.push_back(off * std::sqrt(n / (n - 1)));
    }
  }
  if (noise.empty()) return out;
  std::sort(noise.begin(), noise.end());
  out.median_noise = noise[noise.size() / 2];
  out.p95_noise = noise[noise.size() * 95 / 100];
  Rng rng(seed);
  std::vector<double> measured;
  for (const double mean : means) {
    const auto draw = static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(spread.size())));
    measured.push_back(mean * (1 + spread[draw]));
  }
  out.ceiling = dataset::task_metrics(labels_of(means), labels_of(measured), kDepths).kendall;
  return out;
}

bool is_learnt(const ConfigGraph& graph, std::int64_t config, double share) {
  const auto bytes =
      static_cast<std::size_t>(graph.places() * graph.config_columns()) * sizeof(float);
  const std::uint64_t hash =
      hash_bytes({reinterpret_cast<const char*>(graph.config(config)), bytes});
  return static_cast<double>(Rng(hash).next() >> 11) * 0x1p-53 < share;
}

ConfigGraph take_side(const ConfigGraph& graph, double share, bool learnt) {
  std::vector<std::int64_t> configs;
  for (std::int64_t i = 0; i < graph.size(); ++i) {
    if (is_learnt(graph, i, share) == learnt) configs.push_back(i);
  }
  return take_configs(graph, configs);
}

}  // namespace tessera::graphset
