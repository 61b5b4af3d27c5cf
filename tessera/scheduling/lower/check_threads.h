// Which loops of a State run as blocks and threads of a GPU, and whether they can.
#pragma once

#include "tessera/scheduling/lower/bind_threads.h"
#include "tessera/scheduling/lower/stage_domains.h"
#include "tessera/scheduling/schedule/state.h"
#include "tessera/support/result.h"

namespace tessera::lower {

int thread_dim(schedule::Annotation a);         // 0, 1, 2; -1: not a thread
int thread_dims(const schedule::Stage& stage);  // bit d: a loop is bound to thread dimension d

// The rules of bindings (docs/reference/schedules.md); kIllegalSchedule names stage and loop.
Result<void> check_threads(const schedule::State& state);

// Blocks and threads that the stages of the launch of `root` ask for: the most of each dimension.
LaunchShape launch_shape(const schedule::State& state, const Domains& domains,
                         const schedule::Stage& root);

}  // namespace tessera::lower
