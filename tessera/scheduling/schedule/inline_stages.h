// Substitutes inlined stages into their consumers.
#pragma once

#include "tessera/scheduling/schedule/state.h"

namespace tessera::schedule {

// Leaves: no stage with Attach::kInline.
State inline_stages(const State& state);

}  // namespace tessera::schedule
