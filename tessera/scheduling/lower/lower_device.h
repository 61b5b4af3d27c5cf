// Schedule -> device program: the passes for GPUs.
#pragma once

#include <string>
#include <vector>

#include "tessera/scheduling/lower/lower.h"

namespace tessera::lower {

// Launches that the target can run: the one place where they are compared with its limits
// (check_limits), unless the options leave that out.
Result<Lowered> lower_device(const schedule::State& state, const target::Target& target,
                             const PassOptions& options = {});

// The same for a device without limits, to look at. With `stop_after`, the loops of the program are
// those after that pass.
Result<Lowered> lower_device(const te::Dag& dag, const schedule::Schedule& schedule,
                             const PassOptions& options = {});
Result<Lowered> lower_device(const schedule::State& state, const PassOptions& options = {});

// The names of the passes in order.
std::vector<std::string> device_pass_names();

}  // namespace tessera::lower
