// Generations of measured candidates: parents by rank, crossover and mutation, the best few kept
// as parents for ever.
#include <algorithm>

#include "tessera/search/breeding.h"
#include "tessera/search/policies/policies.h"

namespace tessera::search {
namespace {

constexpr int kPopulation = 100;
constexpr std::size_t kElites = 5;
constexpr double kMutation = 0.5;  // of a crossed child, once more

class Genetic final : public DrawingPolicy {
 public:
  Genetic(const decide::Space& space, const PolicyOptions& options)
      : DrawingPolicy(space, options),
        population_(
            static_cast<std::size_t>(options.population > 0 ? options.population : kPopulation)) {}

  std::vector<decide::Candidate> propose(std::size_t n) override {
    std::vector<decide::Candidate> out;
    if (n == 0) return out;
    if (options_.with_preferred) add_preferred(space_, history_, &out);
    if (history_.all().size() >= population_) {
      const std::vector<decide::Candidate> parents = choose_parents();
      for (std::size_t tries = 0; out.size() < n && tries < 10 * n; ++tries) {
        std::optional<decide::Candidate> child = make_child(space_, parents, 0.8, rng_);
        if (child && (history_.seen(*child) || rng_.chance(kMutation))) {
          child = space_.mutate(*child, rng_);
        }
        if (child && history_.claim(*child)) out.push_back(std::move(*child));
      }
    }
    fill_up(space_, n, history_, rng_, &out);
    return out;
  }

 private:
  // The last generation and the elites, best first; failures are not parents.
  std::vector<decide::Candidate> choose_parents() const {
    const std::vector<Observation>& all = history_.all();
    const std::size_t elites = std::min(kElites, history_.fastest().size());
    std::vector<Observation> pool(history_.fastest().begin(),
                                  history_.fastest().begin() + static_cast<std::ptrdiff_t>(elites));
    const std::size_t from = all.size() - std::min(all.size(), population_);
    for (std::size_t i = from; i < all.size(); ++i) {
      if (all[i].seconds > 0) pool.push_back(all[i]);
    }
    std::stable_sort(pool.begin(), pool.end(), [](const Observation& a, const Observation& b) {
      return a.seconds < b.seconds;
    });
    std::vector<decide::Candidate> parents;
    for (const Observation& o : pool) parents.push_back(o.candidate);
    if (parents.empty()) parents.push_back(space_.preferred());
    return parents;
  }

  std::size_t population_;
};

}  // namespace

std::unique_ptr<Policy> make_genetic(const decide::Space& space, Scorer&,
                                     const PolicyOptions& options) {
  return std::make_unique<Genetic>(space, options);
}

}  // namespace tessera::search
