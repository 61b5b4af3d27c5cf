// Tuning the decisions of a model: kernels of many plans are measured, plans are judged by the sums
// of their kernels, and whole models that take turns decide.
#pragma once

#include "tessera/driver/tune/tune.h"

namespace tessera::driver {

// One model; kernels keep the fastest schedules that are known, in the rules' plan as in others.
// Never ends with a plan that is slower than the rules'. kInvalidArgument: operations or several
// models.
Result<TuneResult> tune_graph(const TuneOptions& options, const TuneCallbacks& callbacks);

// What was found of the kinds that a tuning of kernels does not choose by itself.
plan::Decisions fixed_decisions(const GraphReport& report);

}  // namespace tessera::driver
