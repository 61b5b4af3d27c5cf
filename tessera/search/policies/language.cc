// Candidates that a language model writes, the likeliest of several draws first. Where a task
// stalls, children of the fastest measured take over a growing share.
#include <algorithm>
#include <cmath>

#include "tessera/lm/generate.h"
#include "tessera/lm/uniform_reader.h"
#include "tessera/search/breeding.h"
#include "tessera/search/policies/policies.h"
#include "tessera/search/selection.h"

namespace tessera::search {
namespace {

constexpr std::size_t kDraws = 8;        // sentences for each candidate of a batch, and
constexpr std::size_t kLeastDraws = 32;  // at least that many
// Trials without a gain before half of a batch is bred; twice as many: three quarters, and so on.
constexpr std::size_t kPatience = 16;
constexpr double kMostBred = 0.75;

// In deviations, so that the scores of two judges add up.
void add_in_deviations(const std::vector<double>& values, std::vector<Ranked>* ranked) {
  double sum = 0, squares = 0;
  for (const double v : values) sum += v, squares += v * v;
  const auto n = static_cast<double>(values.size());
  const double mean = sum / n, deviation = std::sqrt(std::max(0.0, squares / n - mean * mean));
  if (deviation <= 0) return;
  for (std::size_t i = 0; i < values.size(); ++i)
    (*ranked)[i].value += (values[i] - mean) / deviation;
}

class Language final : public Policy {
 public:
  Language(const space::Space& space, Scorer& scorer, const PolicyOptions& options)
      : space_(space),
        scorer_(scorer),
        options_(options),
        history_(space.sketches().size()),
        rng_(options.seed),
        generator_(space, options.language ? *options.language : uniform_, {}) {}

  std::vector<space::Candidate> propose(std::size_t n) override {
    std::vector<space::Candidate> out;
    if (n == 0) return out;
    if (options_.with_preferred) add_preferred(space_, history_, &out);
    const std::size_t room = n - out.size();
    const std::size_t bred = random_count(room, bred_share(), rng_);
    for (space::Candidate& c : written(room - bred)) out.push_back(std::move(c));
    if (bred > 0) {
      for (space::Candidate& c : breed_measured(space_, bred, 0, history_, rng_))
        out.push_back(std::move(c));
    }
    fill_up(space_, n, history_, rng_, &out);
    return out;
  }

  void observe(std::span<const Observation> observations) override {
    const double before = best_s();
    history_.observe(observations);
    stalled_ = best_s() < before || before == 0 ? 0 : stalled_ + observations.size();
  }

 private:
  double best_s() const {
    return history_.fastest().empty() ? 0 : history_.fastest().front().seconds;
  }

  double bred_share() const {
    if (history_.fastest().empty() || stalled_ < kPatience) return 0;
    const std::size_t rounds = stalled_ / kPatience;
    return std::min(kMostBred, 1 - std::exp2(-static_cast<double>(rounds)));
  }

  // A model that fails leaves its part to those who need none.
  std::vector<space::Candidate> written(std::size_t n) {
    if (n == 0) return {};
    const auto unseen = [&](const space::Candidate& c) { return !history_.seen(c); };
    const auto drawn = generator_.sample(std::max(kDraws * n, kLeastDraws), rng_, unseen);
    if (!drawn || drawn->empty()) return {};
    std::vector<Ranked> ranked;
    std::vector<space::Candidate> candidates;
    std::vector<double> chances;
    for (const lm::Generated& g : *drawn) {
      ranked.push_back({g.candidate, 0});
      candidates.push_back(g.candidate);
      chances.push_back(g.log_prob);
    }
    add_in_deviations(chances, &ranked);
    if (scorer_.ready()) {
      const std::vector<float> scores = scorer_.score(candidates);
      if (scores.size() == ranked.size())
        add_in_deviations({scores.begin(), scores.end()}, &ranked);
    }
    return pick_batch(std::move(ranked), n, options_, history_);
  }

  const space::Space& space_;
  Scorer& scorer_;
  PolicyOptions options_;
  History history_;
  Rng rng_;
  lm::UniformReader uniform_;
  lm::Generator generator_;
  std::size_t stalled_ = 0;  // trials since the last gain
};

}  // namespace

std::unique_ptr<Policy> make_language(const space::Space& space, Scorer& scorer,
                                      const PolicyOptions& options) {
  return std::make_unique<Language>(space, scorer, options);
}

}  // namespace tessera::search
