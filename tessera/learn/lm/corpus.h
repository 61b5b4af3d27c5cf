// Sentences to learn from: drawn from spaces, or written down from what was measured.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tessera/learn/dataset/dataset.h"
#include "tessera/learn/lm/shard.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/support/rng.h"

namespace tessera::lm {

// One score a candidate of the space, higher is better; empty: it cannot judge these.
using Judge = std::function<std::vector<float>(const space::Space& space,
                                               std::span<const decide::Candidate> candidates)>;

// Up to `count` distinct candidates of the space. Larger sketches get more, by the logarithm of
// their size; fewer where draws keep repeating. Of unknown quality, or with `judge` of the share of
// the others that score lower, and then with sentences that answer which sketch. Gives the number
// of candidates.
Result<std::size_t> write_drawn(const space::Space& space, std::size_t count, Rng& rng,
                                const Judge& judge, ShardWriter* out);

struct RecordedResult {
  std::size_t sentences = 0;   // without those that answer which sketch, one for each of them
  std::size_t tasks = 0;       // on one machine each
  std::size_t unreadable = 0;  // of a space that has changed since, or foreign
};

// How sentences differ from what is read elsewhere: for studies of what that is worth.
struct Telling {
  bool opaque = false;    // numbers are names (opaque_reader.h)
  bool reversed = false;  // the last answer first
};

// The records of a dataset with their quality: the share of those of their task and machine that
// are slower; failures have 0. Only examples with `wanted` true (empty: all).
Result<RecordedResult> write_recorded(const dataset::Dataset& data, const std::vector<bool>& wanted,
                                      const std::function<bool(std::size_t, std::size_t)>& progress,
                                      ShardWriter* out, Telling telling = {});

}  // namespace tessera::lm
