// Which tasks of a tuning find their constants in memory rather than in a cache.
#pragma once

#include <vector>

#include "tessera/app/tune/tune_problem.h"

namespace tessera::app {

// By task. A model whose constants exceed the last cache has none of them there when it runs again:
// its kernels must be timed as they run in it. Operations of their own run again and again.
std::vector<bool> cold_tasks(const TuneProblem& problem, const target::Target& target);

}  // namespace tessera::app
