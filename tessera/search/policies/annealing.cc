// Parallel simulated annealing on the scores of a model. The chains live on between batches.
#include <algorithm>
#include <cmath>

#include "tessera/search/breeding.h"
#include "tessera/search/policies/policies.h"
#include "tessera/search/selection.h"

namespace tessera::search {
namespace {

constexpr int kChains = 128;
// Steps of all chains for one batch: the chains live on, so that many short walks make a long one.
constexpr int kSteps = 32;
constexpr int kStepsWithoutChange = 12;

double deviation(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double v : values) sum += v, squares += v * v;
  const auto n = static_cast<double>(values.size());
  return std::sqrt(std::max(0.0, squares / n - (sum / n) * (sum / n)));
}

class Annealing final : public DrawingPolicy {
 public:
  Annealing(const decide::Space& space, Scorer& scorer, const PolicyOptions& options)
      : DrawingPolicy(space, options), scorer_(scorer) {}

  std::vector<decide::Candidate> propose(std::size_t n) override {
    std::vector<decide::Candidate> out;
    if (n == 0) return out;
    if (options_.with_preferred) add_preferred(space_, history_, &out);
    if (scorer_.ready()) {
      const std::size_t room = n - out.size();
      const std::size_t guided = room - random_count(room, options_.random_share, rng_);
      for (decide::Candidate& c : pick_batch(anneal(guided), guided, options_, history_)) {
        out.push_back(std::move(c));
      }
    }
    fill_up(space_, n, history_, rng_, &out);
    return out;
  }

 private:
  void start_chains() {
    const auto chains =
        static_cast<std::size_t>(options_.population > 0 ? options_.population : kChains);
    if (!chains_.empty()) return;
    for (const Observation& o : history_.fastest()) {
      if (chains_.size() == chains / 4) break;
      chains_.push_back(o.candidate);
    }
    while (chains_.size() < std::max<std::size_t>(1, chains))
      chains_.push_back(space_.sample(rng_));
  }

  std::vector<double> values_of(std::span<const decide::Candidate> candidates) {
    return acquisition(scorer_, candidates, options_.acquisition, incumbent_);
  }

  // Everything the chains came by that was not seen, with its value.
  std::vector<Ranked> anneal(std::size_t n) {
    start_chains();
    if (!history_.fastest().empty()) {
      const std::vector<float> best = scorer_.score({&history_.fastest().front().candidate, 1});
      incumbent_ = best.empty() ? 0 : best.front();
    }
    std::vector<Ranked> found;
    std::unordered_set<std::uint64_t> listed;
    std::vector<double> values = values_of(chains_);
    const double scale = std::max(1e-9, deviation(values));
    const int steps = options_.generations > 0 ? options_.generations : kSteps;
    double threshold = -1e300;
    int last_change = 0;
    for (int step = 0; step < steps && step - last_change < kStepsWithoutChange; ++step) {
      const double temperature = scale * (1 - static_cast<double>(step) / steps);
      std::vector<decide::Candidate> moved = chains_;
      for (decide::Candidate& c : moved) {
        if (std::optional<decide::Candidate> next = space_.mutate(c, rng_)) c = std::move(*next);
      }
      const std::vector<double> new_values = values_of(moved);
      for (std::size_t i = 0; i < moved.size(); ++i) {
        if (!history_.seen(moved[i]) && listed.insert(decide::hash_of(moved[i])).second) {
          if (new_values[i] > threshold) last_change = step;
          found.push_back({moved[i], new_values[i]});
        }
        const double gain = (new_values[i] - values[i]) / (temperature + 1e-5 * scale);
        if (rng_.uniform() < std::exp(std::min(gain, 0.0))) {
          chains_[i] = std::move(moved[i]);
          values[i] = new_values[i];
        }
      }
      threshold = nth_best(found, n);
    }
    return found;
  }

  static double nth_best(const std::vector<Ranked>& found, std::size_t n) {
    if (found.size() < n || n == 0) return -1e300;
    std::vector<double> values;
    for (const Ranked& r : found) values.push_back(r.value);
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n - 1),
                     values.end(), std::greater<>());
    return values[n - 1];
  }

  Scorer& scorer_;
  std::vector<decide::Candidate> chains_;
  double incumbent_ = 0;  // score of the fastest measured
};

}  // namespace

std::unique_ptr<Policy> make_annealing(const decide::Space& space, Scorer& scorer,
                                       const PolicyOptions& options) {
  return std::make_unique<Annealing>(space, scorer, options);
}

}  // namespace tessera::search
