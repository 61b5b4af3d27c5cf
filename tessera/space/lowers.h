// What a space asks of those who lower schedules.
#pragma once

#include "tessera/schedule/step.h"
#include "tessera/support/result.h"
#include "tessera/target/target.h"

namespace tessera::space {

// Whether the schedule has loops that the target can run, as lower::check_lowers says.
using Lowers = Result<void> (*)(const te::Dag& dag, const schedule::Schedule& schedule,
                                const target::Target& target);

}  // namespace tessera::space
