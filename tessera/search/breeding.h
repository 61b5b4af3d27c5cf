// New candidates from old ones, by measured times or ranks alone.
#pragma once

#include <span>
#include <vector>

#include "tessera/search/history.h"

namespace tessera::search {

// Index in [0, n) that prefers small ones: half of the draws fall into the first quarter.
std::size_t draw_rank(std::size_t n, Rng& rng);

// A child of one of `parents` (best first, not empty), which are drawn by rank: a mutation, or with
// chance `crossing` a cross with another parent of the same sketch.
std::optional<decide::Candidate> make_child(const decide::Space& space,
                                            std::span<const decide::Candidate> parents,
                                            double crossing, Rng& rng);

// Up to n unseen candidates, claimed: children of the fastest measured (of the preferred one before
// anything ran), and `random_share` samples that favour the sketches which did well. Fewer: the
// space is exhausted.
std::vector<decide::Candidate> breed_measured(const decide::Space& space, std::size_t n,
                                              double random_share, History& history, Rng& rng);

// Adds unseen samples until there are n, or no more.
void fill_up(const decide::Space& space, std::size_t n, History& history, Rng& rng,
             std::vector<decide::Candidate>* out);

// Adds the space's preferred candidate unless it was seen.
void add_preferred(const decide::Space& space, History& history,
                   std::vector<decide::Candidate>* out);

}  // namespace tessera::search
