// What the threads of a model do while each of its kernels runs, in its place.
#pragma once

#include <vector>

#include "tessera/backend/exec/model_runner.h"

namespace tessera::app {

struct WatchedStep {
  double us = 0;          // as it ran in the model
  double waiting_us = 0;  // of the threads together, over their number
  double again_us = 0;    // called again at once
};

// One run on the processor of this machine, with every kernel called twice; inputs are set.
Result<std::vector<WatchedStep>> watch_steps(const exec::CompiledModel& model,
                                             exec::ModelRunner& runner, int threads);

}  // namespace tessera::app
