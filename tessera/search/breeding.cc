#include "tessera/search/breeding.h"

#include <algorithm>

#include "tessera/search/selection.h"

namespace tessera::search {
namespace {

constexpr std::size_t kParents = 16;
constexpr double kCrossing = 0.25;

void add_samples(const decide::Space& space, std::size_t n, History& history, Rng& rng,
                 std::vector<decide::Candidate>* out) {
  for (decide::Candidate& c : draw_weighted(space, history.sketch_weights(), n, rng)) {
    if (history.claim(c)) out->push_back(std::move(c));
  }
}

}  // namespace

std::size_t draw_rank(std::size_t n, Rng& rng) {
  const double u = rng.uniform();
  return std::min(n - 1, static_cast<std::size_t>(u * u * static_cast<double>(n)));
}

std::optional<decide::Candidate> make_child(const decide::Space& space,
                                            std::span<const decide::Candidate> parents,
                                            double crossing, Rng& rng) {
  const decide::Candidate& parent = parents[draw_rank(parents.size(), rng)];
  if (rng.chance(crossing)) {
    for (int tries = 0; tries < 4; ++tries) {
      const decide::Candidate& other = parents[draw_rank(parents.size(), rng)];
      if (other.sketch == parent.sketch && other != parent) return space.cross(parent, other, rng);
    }
  }
  return space.mutate(parent, rng);
}

std::vector<decide::Candidate> breed_measured(const decide::Space& space, std::size_t n,
                                              double random_share, History& history, Rng& rng) {
  std::vector<decide::Candidate> out;
  add_samples(space, random_count(n, random_share, rng), history, rng, &out);
  std::vector<decide::Candidate> parents;
  for (const Observation& o : history.fastest()) {
    // Few parents while little is known: the best of ten is worth more than all ten.
    if (parents.size() == std::clamp<std::size_t>(history.fastest().size() / 4, 1, kParents)) break;
    parents.push_back(o.candidate);
  }
  if (parents.empty()) parents.push_back(space.preferred());
  for (std::size_t tries = 0; out.size() < n && tries < 20 * n; ++tries) {
    std::optional<decide::Candidate> child = make_child(space, parents, kCrossing, rng);
    // A neighbourhood that is used up is left in several steps.
    for (std::size_t step = 0; child && history.seen(*child) && step < 1 + tries / n; ++step) {
      child = space.mutate(*child, rng);
    }
    if (child && history.claim(*child)) out.push_back(std::move(*child));
  }
  fill_up(space, n, history, rng, &out);
  return out;
}

void fill_up(const decide::Space& space, std::size_t n, History& history, Rng& rng,
             std::vector<decide::Candidate>* out) {
  if (out->size() >= n) return;
  for (decide::Candidate& c : draw_unseen(space, n - out->size(), history, rng)) {
    out->push_back(std::move(c));
  }
}

void add_preferred(const decide::Space& space, History& history,
                   std::vector<decide::Candidate>* out) {
  decide::Candidate preferred = space.preferred();
  if (history.claim(preferred)) out->push_back(std::move(preferred));
}

}  // namespace tessera::search
