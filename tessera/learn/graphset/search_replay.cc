#include "tessera/learn/graphset/search_replay.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tessera/support/rng.h"

namespace tessera::graphset {
namespace {

// A step goes to one of so many.
constexpr std::size_t kNearest = 8;
// What a step may lose at first, relative to the time.
constexpr double kHeat = 0.05;

using Numbers = std::vector<std::size_t>;

class Replay {
 public:
  Replay(const ConfigGraph& graph, std::span<const float> scores, const ReplayOptions& options)
      : options_(options), rng_(options.seed) {
    for (std::int64_t i = 0; i < graph.size(); ++i) {
      if (graph.cost(i) <= 0) continue;
      rows_.push_back(graph.config(i));
      costs_.push_back(graph.cost(i));
      scores_.push_back(scores[static_cast<std::size_t>(i)]);
    }
    columns_ = graph.places() * graph.config_columns();
    if (costs_.empty()) return;
    enough_ = (1 + options.gap) * *std::min_element(costs_.begin(), costs_.end());
  }

  SearchReplay run() {
    SearchReplay out;
    out.configs = std::ssize(costs_);
    if (costs_.empty()) return out;
    for (int i = 0; i < options_.runs; ++i) {
      out.random += random() / options_.runs;
      out.annealing += annealing() / options_.runs;
    }
    out.judged = judged();
    return out;
  }

 private:
  bool found(std::size_t i) const { return costs_[i] <= enough_; }

  double until_found(const Numbers& order) const {
    const auto it =
        std::find_if(order.begin(), order.end(), [this](std::size_t i) { return found(i); });
    return static_cast<double>(it - order.begin() + 1);
  }

  Numbers numbers() const {
    Numbers out(costs_.size());
    std::iota(out.begin(), out.end(), 0);
    return out;
  }

  double random() {
    Numbers order = numbers();
    for (std::size_t i = order.size(); i > 2; --i) {
      std::swap(order[i - 1],
                order[1 + static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(i) - 1))]);
    }
    return until_found(order);
  }

  double judged() const {
    Numbers order = numbers();
    std::stable_sort(order.begin() + 1, order.end(),
                     [this](std::size_t a, std::size_t b) { return scores_[a] > scores_[b]; });
    return until_found(order);
  }

  // Others by the number of values in which they differ.
  const Numbers& nearest(std::size_t to) {
    if (order_.empty()) order_.resize(costs_.size());
    Numbers& out = order_[to];
    if (!out.empty()) return out;
    std::vector<std::int64_t> apart(costs_.size(), 0);
    for (std::size_t i = 0; i < costs_.size(); ++i) {
      for (std::int64_t c = 0; c < columns_; ++c) apart[i] += rows_[i][c] != rows_[to][c] ? 1 : 0;
    }
    out = numbers();
    std::stable_sort(out.begin(), out.end(),
                     [&](std::size_t a, std::size_t b) { return apart[a] < apart[b]; });
    return out;
  }

  double annealing() {
    std::vector<bool> measured(costs_.size(), false);
    std::size_t now = 0, count = 1;
    measured[0] = true;
    if (found(0)) return 1;
    while (count < costs_.size()) {
      Numbers near;
      for (const std::size_t i : nearest(now)) {
        if (!measured[i]) near.push_back(i);
        if (near.size() == kNearest) break;
      }
      const std::size_t next = near[static_cast<std::size_t>(rng_.below(std::ssize(near)))];
      measured[next] = true;
      ++count;
      if (found(next)) break;
      const double done = static_cast<double>(count) / static_cast<double>(costs_.size());
      const double loss = costs_[next] / costs_[now] - 1;
      if (loss <= 0 || rng_.chance(std::exp(-loss / (kHeat * (1 - done) + 1e-9)))) now = next;
    }
    return static_cast<double>(count);
  }

  const ReplayOptions& options_;
  Rng rng_;
  std::vector<const float*> rows_;
  std::vector<double> costs_;
  std::vector<float> scores_;
  std::int64_t columns_ = 0;
  double enough_ = 0;
  std::vector<Numbers> order_;
};

}  // namespace

Json to_json(const SearchReplay& replay) {
  return {{"name", replay.name},
          {"configs", replay.configs},
          {"random", replay.random},
          {"annealing", replay.annealing},
          {"judged", replay.judged}};
}

SearchReplay replay_searches(const ConfigGraph& graph, std::span<const float> scores,
                             const ReplayOptions& options) {
  TESSERA_CHECK(scores.size() == graph.runtime_ns.size(), "{} scores of {} configurations",
                scores.size(), graph.runtime_ns.size());
  SearchReplay out = Replay(graph, scores, options).run();
  out.name = graph.name;
  return out;
}

}  // namespace tessera::graphset
