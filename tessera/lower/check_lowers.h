// Whether a schedule has loops that the target can run.
#pragma once

#include "tessera/schedule/step.h"
#include "tessera/support/result.h"
#include "tessera/target/target.h"

namespace tessera::lower {

// The errors of lower() and lower_device(), by the kind of the target.
Result<void> check_lowers(const te::Dag& dag, const schedule::Schedule& schedule,
                          const target::Target& target);

}  // namespace tessera::lower
