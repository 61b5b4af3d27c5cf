// Conditions that threads need not check in their inner loops.
#pragma once

#include "tessera/scheduling/lower/stage_domains.h"
#include "tessera/scheduling/schedule/state.h"

namespace tessera::lower {

// Attached stages that do not reduce store zeros beyond the edge of their tensor
// (StageDomain::edges), and stages that read only such regions compute beyond it too, which no one
// reads. Sums of products of what is zero there run on past the end of the reduction
// (Condition::moot).
void free_edges(const schedule::State& state, Domains* domains);

}  // namespace tessera::lower
