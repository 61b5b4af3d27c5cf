#include "tessera/search/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "tessera/scheduling/decide/walk.h"

namespace tessera::search {
namespace {

// Spaces up to this size are enumerated when samples keep repeating.
constexpr double kEnumerable = 1 << 20;

void enumerate_rest(const decide::Space& space, std::size_t n, History& history, Rng& rng,
                    std::vector<decide::Candidate>* out) {
  std::vector<decide::Candidate> rest;
  decide::Enumeration all(space);
  while (std::optional<decide::Candidate> c = all.next()) {
    if (!history.seen(*c)) rest.push_back(*std::move(c));
  }
  while (!rest.empty() && out->size() < n) {
    std::swap(rest[static_cast<std::size_t>(rng.below(std::ssize(rest)))], rest.back());
    history.claim(rest.back());
    out->push_back(std::move(rest.back()));
    rest.pop_back();
  }
}

double normal_density(double x) { return std::exp(-0.5 * x * x) * 0.3989422804014327; }
double normal_below(double x) { return 0.5 * std::erfc(-x * 0.7071067811865476); }

double deviation(const std::vector<Ranked>& ranked) {
  double sum = 0, squares = 0;
  for (const Ranked& r : ranked) sum += r.value, squares += r.value * r.value;
  const auto count = static_cast<double>(ranked.size());
  const double variance = squares / count - (sum / count) * (sum / count);
  return variance > 1e-18 ? std::sqrt(variance) : 1;
}

using DecisionValue = std::tuple<std::int32_t, std::size_t, std::int32_t>;

std::size_t new_values(const decide::Candidate& c, const std::set<DecisionValue>& covered) {
  std::size_t count = 0;
  for (std::size_t d = 0; d < c.choice.size(); ++d) {
    if (!covered.contains({c.sketch, d, c.choice[d]})) ++count;
  }
  return count;
}

// `ranked` is the short list, best first, unseen and distinct.
std::vector<decide::Candidate> pick_diverse(std::vector<Ranked> ranked, std::size_t n,
                                            double diversity) {
  const double scale = deviation(ranked);
  std::set<DecisionValue> covered;
  std::vector<decide::Candidate> out;
  while (out.size() < n && !ranked.empty()) {
    std::size_t best = 0;
    double best_gain = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      const decide::Candidate& c = ranked[i].candidate;
      const auto decisions = static_cast<double>(std::max<std::size_t>(c.choice.size(), 1));
      const double fresh = static_cast<double>(new_values(c, covered)) / decisions;
      const double gain = ranked[i].value / scale + diversity * fresh;
      if (gain > best_gain) best = i, best_gain = gain;
    }
    const decide::Candidate c = ranked[best].candidate;
    ranked.erase(ranked.begin() + static_cast<std::ptrdiff_t>(best));
    for (std::size_t d = 0; d < c.choice.size(); ++d) covered.insert({c.sketch, d, c.choice[d]});
    out.push_back(c);
  }
  return out;
}

}  // namespace

std::vector<decide::Candidate> draw_unseen(const decide::Space& space, std::size_t n,
                                           History& history, Rng& rng) {
  std::vector<decide::Candidate> out;
  const int patience = 64;
  int misses = 0;
  while (out.size() < n && misses < patience) {
    decide::Candidate c = space.sample(rng);
    if (!history.claim(c)) {
      ++misses;
      continue;
    }
    misses = 0;
    out.push_back(std::move(c));
  }
  if (out.size() < n && space.size() <= kEnumerable) enumerate_rest(space, n, history, rng, &out);
  return out;
}

std::vector<decide::Candidate> draw_weighted(const decide::Space& space,
                                             std::span<const double> weights, std::size_t n,
                                             Rng& rng) {
  std::vector<decide::Candidate> out;
  while (out.size() < n)
    out.push_back(space.sample(static_cast<std::int32_t>(draw_index(weights, rng)), rng));
  return out;
}

std::size_t draw_index(std::span<const double> weights, Rng& rng) {
  double sum = 0;
  for (const double w : weights) sum += w;
  double at = rng.uniform() * sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    at -= weights[i];
    if (at < 0) return i;
  }
  return weights.size() - 1;
}

std::vector<double> acquisition(Scorer& scorer, std::span<const decide::Candidate> candidates,
                                const std::string& kind, double incumbent) {
  const std::vector<float> scores = scorer.score(candidates);
  std::vector<double> values(scores.begin(), scores.end());
  if (kind == "mean") return values;
  const std::vector<float> spreads = scorer.spread(candidates);
  if (spreads.size() != values.size()) return values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double spread = std::max(1e-9, static_cast<double>(spreads[i]));
    if (kind == "ucb") {
      values[i] += spread;
    } else {
      const double gain = values[i] - incumbent;
      values[i] = gain * normal_below(gain / spread) + spread * normal_density(gain / spread);
    }
  }
  return values;
}

std::vector<decide::Candidate> pick_batch(std::vector<Ranked> ranked, std::size_t n,
                                          const PolicyOptions& options, History& history) {
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ranked& a, const Ranked& b) { return a.value > b.value; });
  const std::size_t factor =
      options.diversity > 0 ? static_cast<std::size_t>(std::max(1, options.diversity_factor)) : 1;
  std::unordered_set<std::uint64_t> listed;
  std::vector<Ranked> list;
  for (Ranked& r : ranked) {
    if (list.size() >= n * factor) break;
    if (history.seen(r.candidate) || !listed.insert(decide::hash_of(r.candidate)).second) continue;
    list.push_back(std::move(r));
  }
  std::vector<decide::Candidate> out;
  if (options.diversity > 0 && !list.empty()) {
    out = pick_diverse(std::move(list), n, options.diversity);
  } else {
    for (Ranked& r : list) out.push_back(std::move(r.candidate));
  }
  for (const decide::Candidate& c : out) history.claim(c);
  return out;
}

std::size_t random_count(std::size_t n, double share, Rng& rng) {
  const double exact = static_cast<double>(n) * std::clamp(share, 0.0, 1.0);
  const double whole = std::floor(exact);
  return std::min(n, static_cast<std::size_t>(whole) + (rng.chance(exact - whole) ? 1u : 0u));
}

}  // namespace tessera::search
