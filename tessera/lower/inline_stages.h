// Substitutes inlined stages into their consumers.
#pragma once

#include "tessera/schedule/state.h"

namespace tessera::lower {

// Leaves: no stage with Attach::kInline.
schedule::State inline_stages(const schedule::State& state);

}  // namespace tessera::lower
