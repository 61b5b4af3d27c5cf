// How a session goes about its trials, which depends on where they run.
#pragma once

#include <cstdint>

#include "tessera/machine/target/target.h"
#include "tessera/search/model_scorer.h"

namespace tessera::app {

struct TunePace {
  bool on_processors;                        // trials and builders share the processors
  double trial_s;                            // of a trial, besides its runs
  double round_most;                         // trials of a round
  std::size_t waiting;                       // candidates for the builders, at least
  std::int64_t stop_after;                   // trials of a task without any gain before it stops
  void (*prepare)(search::LearnerOptions*);  // what the learner does otherwise than it was asked to
};
const TunePace& pace_of(const target::Target& target);

}  // namespace tessera::app
