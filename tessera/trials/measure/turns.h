// Which candidate of a place runs in which run of a model, and which of their times count.
#pragma once

#include <cstddef>
#include <vector>

#include "tessera/machine/runtime/timing.h"
#include "tessera/support/rng.h"

namespace tessera::measure {

// Candidates that take turns in one place of a model.
struct Turns {
  std::vector<std::size_t> candidates;
  bool together = false;  // in the same runs as those of other places that are together
};

inline constexpr std::size_t kOwnKernel = static_cast<std::size_t>(-1);

// A round of runs, by run and place: each candidate is in one of them, and the model's own kernel
// in the others, of which there is at least one. Drawn anew, candidates meet other neighbours.
std::vector<std::vector<std::size_t>> draw_round(const std::vector<Turns>& places, Rng& rng);

// One call in a timed run.
struct TimedCall {
  double seconds = 0;
  bool clean = true;        // no thread of the run waited for a core
  double share_waited = 0;  // of that run
};

// Seconds of the clean ones as they were taken, or, where these are fewer than `least`, of so many
// that waited least.
std::vector<double> kept_seconds(const std::vector<TimedCall>& calls, std::size_t least);

}  // namespace tessera::measure
