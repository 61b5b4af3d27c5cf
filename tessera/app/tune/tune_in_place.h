// Trials in place: candidates are timed inside the running model.
#pragma once

#include "tessera/app/tune/tune.h"

namespace tessera::app {

// kInvalidArgument, or kUnsupported on a GPU, where trials in place are asked for but cannot be
// had.
Result<void> check_in_place(const TuneOptions& options);

// Compiles the model with default schedules, for options->measure.in_place. Before workers are
// forked: they share its memory.
Result<void> place_model(const TuneProblem& problem, TuneOptions* options);

}  // namespace tessera::app
