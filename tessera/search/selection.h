// What policies share: unseen samples, the value of a candidate to a search, the pick of a batch.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/search/history.h"

namespace tessera::search {

// Up to n legal candidates that `history` has not seen, claimed there. Fewer only when the space
// holds no more, or when it is too large to enumerate and its samples keep repeating.
std::vector<decide::Candidate> draw_unseen(const decide::Space& space, std::size_t n,
                                           History& history, Rng& rng);
// The same, the sketch of each drawn by `weights`. Fewer when samples keep repeating.
std::vector<decide::Candidate> draw_weighted(const decide::Space& space,
                                             std::span<const double> weights, std::size_t n,
                                             Rng& rng);

// Index drawn with probability proportional to its weight; weights are >= 0 and not all 0.
std::size_t draw_index(std::span<const double> weights, Rng& rng);

// A candidate and what it is worth to the search, higher is better.
struct Ranked {
  decide::Candidate candidate;
  double value = 0;
};

// By "mean" the score; by "ucb" score + spread; by "ei" the expected improvement over `incumbent`,
// a score. Without spreads the last two fall back on the score.
std::vector<double> acquisition(Scorer& scorer, std::span<const decide::Candidate> candidates,
                                const std::string& kind, double incumbent);

// Greedy maximum of sum(value) / deviation + diversity * (values of decisions not yet in the batch)
// / (decisions), over the best diversity_factor * n of `ranked`; by value alone when diversity is
// 0. Claims what it picks, skips what was seen. `ranked` may be in any order.
std::vector<decide::Candidate> pick_batch(std::vector<Ranked> ranked, std::size_t n,
                                          const PolicyOptions& options, History& history);

// How many of a batch of n are drawn at random: the share, rounded by chance so that small batches
// get theirs too.
std::size_t random_count(std::size_t n, double share, Rng& rng);

}  // namespace tessera::search
