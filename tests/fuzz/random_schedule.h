// Random legal schedules of a Dag.
#pragma once

#include "tessera/scheduling/schedule/step.h"
#include "tessera/support/rng.h"

namespace tessera::fuzz {

// Draws steps of every kind except tensorize; those that the schedule refuses are dropped. The
// result lowers for a CPU, and its unrolled code stays small enough to compile in milliseconds.
schedule::Schedule random_schedule(const te::Dag& dag, Rng& rng);

// `schedule` without step `index`; the sources of follow steps are renumbered.
schedule::Schedule without_step(const schedule::Schedule& schedule, std::size_t index);

}  // namespace tessera::fuzz
