// Trials in place: candidates are timed inside the running model.
#pragma once

#include <memory>

#include "tessera/app/tune/tune.h"
#include "tessera/trials/measure/model_copies.h"

namespace tessera::app {

// kInvalidArgument, or kUnsupported on a GPU, where trials in place are asked for but cannot be
// had.
Result<void> check_in_place(const TuneOptions& options);

// Compiles the model with default schedules, for options->measure.in_place, and starts the copies
// that options->contention asks for; null: none. Before workers are forked: they share its memory.
Result<std::unique_ptr<measure::ModelCopies>> place_model(const TuneProblem& problem,
                                                          TuneOptions* options);

}  // namespace tessera::app
