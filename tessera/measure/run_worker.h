// The process that calls candidates: checks their results, then times them.
#pragma once

#include <vector>

#include "tessera/measure/measurer.h"
#include "tessera/measure/messages.h"
#include "tessera/measure/task_data.h"

namespace tessera::measure {

// Serves RunRequest frames until the channel ends. Announces each candidate before its first call
// and again before it is timed, so that the server can set deadlines and knows whom to blame;
// `current` (shared with the server) is the item whose code runs.
void serve_runs(Channel& channel, const std::vector<te::Dag>& tasks, const target::Target& target,
                const MeasureOptions& options, std::vector<SharedReference>& references,
                volatile std::uint32_t* current);

}  // namespace tessera::measure
