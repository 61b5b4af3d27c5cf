// The process that calls candidates: checks their results, then times them.
#pragma once

#include <vector>

#include "tessera/machine/runtime/thread_pool.h"
#include "tessera/machine/target/target.h"
#include "tessera/trials/measure/messages.h"
#include "tessera/trials/measure/options.h"
#include "tessera/trials/measure/task_data.h"

namespace tessera::measure {

// The right outputs of a task for its inputs, asked when it is first run.
using ExpectedOfTask = std::function<Result<Expected>(
    std::size_t task, const std::vector<HostTensor>& inputs, runtime::ThreadPool& pool)>;

// Serves RunRequest frames until the channel ends. Announces each candidate before its first call
// and again before it is timed, so that the server can set deadlines and knows whom to blame;
// `current` (shared with the server) is the item whose code runs.
void serve_runs(Channel& channel, const std::vector<te::Dag>& tasks, const target::Target& target,
                const MeasureOptions& options, const ExpectedOfTask& expected,
                volatile std::uint32_t* current);

}  // namespace tessera::measure
