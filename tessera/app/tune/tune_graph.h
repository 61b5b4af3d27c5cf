// Tuning the decisions of a model: kernels of many plans are measured, a judge orders plans, and
// whole models that take turns decide.
#pragma once

#include "tessera/app/tune/tune.h"

namespace tessera::app {

// Levels graph and both, of one model; the latter tunes kernels first, in the rules' plan as in
// others. Never ends with a plan that is slower than the rules'. kInvalidArgument: operations or
// several models.
Result<TuneResult> tune_graph(const TuneOptions& options, const TuneCallbacks& callbacks);

}  // namespace tessera::app
