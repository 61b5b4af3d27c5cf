// A schedule chosen by reasoning alone: no measurement, a few milliseconds.
#pragma once

#include "tessera/scheduling/lower/lower.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::space {

// Legal for every verified Dag: what cannot be applied or lowered is replaced by something simpler,
// in the end by the loops as written. An error only where those cannot be lowered either; for GPUs,
// where a stage has no axis that blocks or threads could be bound to.
Result<schedule::Schedule> default_schedule(const te::Dag& dag, const target::Target& target);

// The same with what it was lowered to.
struct DefaultSchedule {
  schedule::Schedule steps;
  lower::Lowered lowered;
};
Result<DefaultSchedule> lower_default(const te::Dag& dag, const target::Target& target);

}  // namespace tessera::space
