// Evolution on the scores of a model, from samples, the best measured and what survived the last
// batch. Without a model it evolves measured times.
#include <algorithm>

#include "tessera/search/breeding.h"
#include "tessera/search/policies/policies.h"
#include "tessera/search/selection.h"

namespace tessera::search {
namespace {

constexpr std::size_t kPopulation = 512;
constexpr std::size_t kLeastPopulation = 96;
constexpr std::size_t kPopulationPerPick = 16;
constexpr int kGenerations = 4;
constexpr double kMeasuredShare = 0.2, kSurvivorShare = 0.2;  // of the first generation
constexpr double kEliteShare = 0.1;                           // of the next generation
constexpr double kCrossing = 0.3;
constexpr double kRandomWithoutModel = 0.25;

class Evolutionary final : public DrawingPolicy {
 public:
  Evolutionary(const decide::Space& space, Scorer& scorer, const PolicyOptions& options)
      : DrawingPolicy(space, options),
        scorer_(scorer),
        population_(population_for(kLeastPopulation)) {}

  std::vector<decide::Candidate> propose(std::size_t n) override {
    std::vector<decide::Candidate> out;
    if (n == 0) return out;
    if (options_.with_preferred) add_preferred(space_, history_, &out);
    const std::size_t room = n - out.size();
    std::vector<decide::Candidate> rest;
    if (scorer_.ready()) {
      const std::size_t guided = room - random_count(room, options_.random_share, rng_);
      population_ = population_for(n);
      rest = pick_batch(evolve(), guided, options_, history_);
    } else {
      const double first = options_.with_preferred ? 0.5 : 1;
      const double share = history_.fastest().empty() ? first : kRandomWithoutModel;
      rest = breed_measured(space_, room, share, history_, rng_);
    }
    std::move(rest.begin(), rest.end(), std::back_inserter(out));
    fill_up(space_, n, history_, rng_, &out);
    return out;
  }

 private:
  // Small batches are filled from small populations: what they propose must not cost more than what
  // it takes to measure them.
  std::size_t population_for(std::size_t n) const {
    if (options_.population > 0) return static_cast<std::size_t>(options_.population);
    return std::clamp<std::size_t>(kPopulationPerPick * n, kLeastPopulation, kPopulation);
  }

  // Distinct candidates met in this batch, so that generations do not fill up with copies.
  using Met = std::unordered_set<std::uint64_t>;

  std::vector<decide::Candidate> first_generation(Met& met) {
    std::vector<decide::Candidate> out;
    const auto add = [&](const decide::Candidate& c) {
      if (met.insert(decide::hash_of(c)).second) out.push_back(c);
    };
    const auto share = [&](double s) {
      return static_cast<std::size_t>(s * static_cast<double>(population_));
    };
    for (const Observation& o : history_.fastest()) {
      if (out.size() >= share(kMeasuredShare)) break;
      add(o.candidate);
    }
    if (options_.with_preferred) add(space_.preferred());
    for (const decide::Candidate& c : survivors_) add(c);
    const std::size_t room = population_ - std::min(population_, out.size());
    for (const decide::Candidate& c :
         draw_weighted(space_, history_.sketch_weights(), room, rng_)) {
      add(c);
    }
    return out;
  }

  static void sort_by_value(std::vector<Ranked>* ranked) {
    std::stable_sort(ranked->begin(), ranked->end(),
                     [](const Ranked& a, const Ranked& b) { return a.value > b.value; });
  }

  std::vector<Ranked> rank(std::vector<decide::Candidate> candidates) {
    const std::vector<double> values =
        acquisition(scorer_, candidates, options_.acquisition, incumbent());
    std::vector<Ranked> out;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      out.push_back({std::move(candidates[i]), values[i]});
    }
    return out;
  }

  double incumbent() {
    if (history_.fastest().empty() || options_.acquisition == "mean") return 0;
    const std::vector<float> best = scorer_.score({&history_.fastest().front().candidate, 1});
    return best.empty() ? 0 : best.front();
  }

  std::vector<decide::Candidate> next_generation(const std::vector<Ranked>& parents, Met& met) {
    std::vector<decide::Candidate> pool, out;
    for (const Ranked& r : parents) pool.push_back(r.candidate);
    for (std::size_t tries = 0; out.size() < population_ && tries < 3 * population_; ++tries) {
      std::optional<decide::Candidate> child = make_child(space_, pool, kCrossing, rng_);
      if (child && met.insert(decide::hash_of(*child)).second) out.push_back(std::move(*child));
    }
    return out;
  }

  // All candidates met, scored.
  std::vector<Ranked> evolve() {
    Met met;
    std::vector<Ranked> all, parents = rank(first_generation(met));
    const int generations = options_.generations > 0 ? options_.generations : kGenerations;
    const auto elites =
        static_cast<std::size_t>(kEliteShare * static_cast<double>(population_)) + 1;
    for (int g = 0;; ++g) {
      all.insert(all.end(), parents.begin(), parents.end());
      if (g == generations) break;
      sort_by_value(&parents);
      std::vector<Ranked> children = rank(next_generation(parents, met));
      if (children.empty()) break;
      parents.resize(std::min(parents.size(), elites));
      std::move(children.begin(), children.end(), std::back_inserter(parents));
    }
    sort_by_value(&all);
    survivors_.clear();
    const auto kept = static_cast<std::size_t>(kSurvivorShare * static_cast<double>(population_));
    for (const Ranked& r : all) {
      if (survivors_.size() == kept) break;
      survivors_.push_back(r.candidate);
    }
    return all;
  }

  Scorer& scorer_;
  std::size_t population_;  // of this batch
  std::vector<decide::Candidate> survivors_;
};

}  // namespace

std::unique_ptr<Policy> make_evolutionary(const decide::Space& space, Scorer& scorer,
                                          const PolicyOptions& options) {
  return std::make_unique<Evolutionary>(space, scorer, options);
}

}  // namespace tessera::search
