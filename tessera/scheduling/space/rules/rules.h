// Sketches derived by rules for CPUs.
#pragma once

#include <memory>
#include <vector>

#include "tessera/scheduling/space/space.h"

namespace tessera::space {

// At least one for every verified Dag. Several ways of tiling the stage with most work, each with
// and without stages that pad inlined.
Result<std::vector<std::unique_ptr<Sketch>>> rule_sketches(const te::Dag& dag,
                                                           const target::Target& target);

}  // namespace tessera::space
