// The process that turns schedules into object code.
#pragma once

#include <vector>

#include "tessera/trials/measure/measurer.h"
#include "tessera/trials/measure/messages.h"

namespace tessera::measure {

// Steps -> object code with one kernel, or a program of a GPU: machine code where there is an
// assembler. Failures of any kind are in Built::error.
Built build_candidate(const te::Dag& dag, const schedule::Schedule& steps,
                      const target::Target& target);

// Serves Job frames until the channel ends; `confine`: as confine.h says.
void serve_builds(Channel& channel, const std::vector<te::Dag>& tasks, const target::Target& target,
                  const WorkerHooks& hooks, bool confine);

}  // namespace tessera::measure
