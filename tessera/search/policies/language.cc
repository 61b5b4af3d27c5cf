// Candidates that a language model writes, the likeliest of several draws first. With a cost model
// they are where evolution on what both models hold of them begins. An adapter learns from what was
// measured. Where a task stalls, children of the fastest measured take over a growing share.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_set>

#include "tessera/learn/lm/adapter.h"
#include "tessera/learn/lm/generate.h"
#include "tessera/learn/lm/transcribe.h"
#include "tessera/search/breeding.h"
#include "tessera/search/policies/policies.h"
#include "tessera/search/selection.h"

namespace tessera::search {
namespace {

constexpr std::size_t kDraws = 8;  // sentences for each candidate of a batch, at least
constexpr int kGenerations = 3;    // that are bred of them
constexpr double kCrossing = 0.3;
// Trials without a gain before half of a batch is bred; twice as many: three quarters, and so on.
constexpr std::size_t kPatience = 16;
constexpr double kMostBred = 0.75;

// By places from 0 to 1, so that two judges add up: far more than its place, what one of them holds
// for much the best is its mistake.
void add_places(const std::vector<double>& values, double weight, std::vector<Ranked>* ranked) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  const auto n = static_cast<double>(values.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    (*ranked)[order[place]].value += weight * static_cast<double>(place) / n;
}

class Language final : public DrawingPolicy {
 public:
  Language(const decide::Space& space, Scorer& scorer, const PolicyOptions& options)
      : DrawingPolicy(space, options),
        scorer_(scorer),
        adapter_(options.language ? options.language->adapter() : nullptr) {
    if (!options.language) return;
    TESSERA_CHECK(options.task != nullptr, "a language model writes about a task");
    generator_.emplace(*options.task, *options.language, lm::GenerateOptions{});
  }

  std::vector<decide::Candidate> propose(std::size_t n) override {
    std::vector<decide::Candidate> out;
    if (n == 0) return out;
    if (options_.with_preferred) add_preferred(space_, history_, &out);
    const std::size_t room = n - out.size();
    const std::size_t bred = random_count(room, bred_share(), rng_);
    for (decide::Candidate& c : written(room - bred)) out.push_back(std::move(c));
    if (bred > 0) {
      for (decide::Candidate& c : breed_measured(space_, bred, 0, history_, rng_))
        out.push_back(std::move(c));
    }
    fill_up(space_, n, history_, rng_, &out);
    return out;
  }

  void observe(std::span<const Observation> observations) override {
    const double before = best_s();
    DrawingPolicy::observe(observations);
    stalled_ = best_s() < before || before == 0 ? 0 : stalled_ + observations.size();
    if (adapter_ == nullptr) return;
    for (const Observation& o : observations) learn(o);
  }

 private:
  // What failed tells nothing of speed.
  void learn(const Observation& o) {
    const auto sketch = static_cast<std::size_t>(o.candidate.sketch);
    if (!(o.seconds > 0) || sketch >= space_.sketches().size()) return;
    const auto answers = lm::transcribe(*space_.sketches()[sketch], o.candidate.choice);
    if (!answers) return;
    const lm::Subject& subject = generator_->subject(o.candidate.sketch);
    adapter_->add(subject.task + "\n" + subject.machine, subject, *answers, -std::log(o.seconds));
  }

  double best_s() const {
    return history_.fastest().empty() ? 0 : history_.fastest().front().seconds;
  }

  double bred_share() const {
    if (history_.fastest().empty() || stalled_ < kPatience) return 0;
    const std::size_t rounds = stalled_ / kPatience;
    return std::min(kMostBred, 1 - std::exp2(-static_cast<double>(rounds)));
  }

  // What is thought of candidates, distinct and unseen.
  struct Pool {
    std::vector<decide::Candidate> candidates;
    std::vector<double> chances, scores;  // no scores: there is no cost model
    std::unordered_set<std::uint64_t> met;
  };

  // A model that fails leaves its part to those who need none.
  std::vector<decide::Candidate> written(std::size_t n) {
    if (n == 0) return {};
    if (adapter_ != nullptr) adapter_->fit();
    const auto least = static_cast<std::size_t>(std::max(1, options_.draws));
    const std::size_t wanted = std::min(std::max(kDraws * n, least), unseen_count());
    Pool pool;
    for (const lm::Generated& g : drawn(wanted)) {
      pool.candidates.push_back(g.candidate);
      pool.chances.push_back(g.log_prob);
      pool.met.insert(decide::hash_of(g.candidate));
    }
    const std::size_t count = pool.candidates.size();
    if (count == 0) return {};
    const bool judged = scorer_.ready() && add_scores(&pool);
    for (int g = 0; judged && g < kGenerations; ++g) {
      if (!breed(count, &pool)) break;
    }
    return pick_batch(rank(pool), n, options_, history_);
  }

  // Distinct and unseen.
  std::vector<lm::Generated> drawn(std::size_t wanted) {
    const auto unseen = [&](const decide::Candidate& c) { return !history_.seen(c); };
    std::vector<lm::Generated> out;
    if (generator_) {
      if (auto written = generator_->sample(wanted, rng_, unseen)) out = *std::move(written);
      return out;
    }
    std::unordered_set<std::uint64_t> met;
    for (std::size_t tries = 0; out.size() < wanted && tries < 2 * wanted; ++tries) {
      decide::Candidate c = space_.sample(rng_);
      if (unseen(c) && met.insert(decide::hash_of(c)).second) out.push_back({std::move(c), 0});
    }
    return out;
  }

  // Asked for more, it would go on drawing what it has drawn before.
  std::size_t unseen_count() const {
    if (options_.candidates == 0) return std::numeric_limits<std::size_t>::max();
    return options_.candidates - std::min(options_.candidates, history_.all().size());
  }

  std::vector<Ranked> rank(const Pool& pool) const {
    std::vector<Ranked> out;
    for (const decide::Candidate& c : pool.candidates) out.push_back({c, 0});
    add_places(pool.chances, 1, &out);
    if (!pool.scores.empty()) add_places(pool.scores, options_.judge, &out);
    return out;
  }

  // Of the candidates that have none yet; false: the cost model has none for them.
  bool add_scores(Pool* pool) {
    const std::span<const decide::Candidate> fresh =
        std::span<const decide::Candidate>(pool->candidates).subspan(pool->scores.size());
    const std::vector<float> scores = scorer_.score(fresh);
    if (scores.size() != fresh.size()) return false;
    pool->scores.insert(pool->scores.end(), scores.begin(), scores.end());
    return true;
  }

  // Up to n children of the pool; false: none was found, or the models do not know them.
  bool breed(std::size_t n, Pool* pool) {
    std::vector<Ranked> ranked = rank(*pool);
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const Ranked& a, const Ranked& b) { return a.value > b.value; });
    std::vector<decide::Candidate> parents, children;
    for (std::size_t i = 0; i < std::min(n, ranked.size()); ++i)
      parents.push_back(ranked[i].candidate);
    for (std::size_t tries = 0; children.size() < n && tries < 3 * n; ++tries) {
      std::optional<decide::Candidate> child = make_child(space_, parents, kCrossing, rng_);
      if (child && !history_.seen(*child) && pool->met.insert(decide::hash_of(*child)).second)
        children.push_back(*std::move(child));
    }
    if (children.empty()) return false;
    const Result<std::vector<double>> chances =
        generator_ ? generator_->chances_of(children) : std::vector<double>(children.size(), 0);
    if (!chances) return false;
    const std::size_t before = pool->candidates.size();
    std::move(children.begin(), children.end(), std::back_inserter(pool->candidates));
    pool->chances.insert(pool->chances.end(), chances->begin(), chances->end());
    if (add_scores(pool)) return true;
    pool->candidates.resize(before);
    pool->chances.resize(before);
    return false;
  }

  Scorer& scorer_;
  lm::Adapter* adapter_;  // null: what is measured teaches the language model nothing
  std::optional<lm::Generator> generator_;  // none: there is no language model
  std::size_t stalled_ = 0;                 // trials since the last gain
};

}  // namespace

std::unique_ptr<Policy> make_language(const decide::Space& space, Scorer& scorer,
                                      const PolicyOptions& options) {
  return std::make_unique<Language>(space, scorer, options);
}

}  // namespace tessera::search
