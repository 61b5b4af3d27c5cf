// The same work on every thread of a pool at once, timed from the first start to the last end.
#pragma once

#include <functional>

#include "tessera/machine/runtime/thread_pool.h"

namespace tessera::app {

// Runs work(worker) once on each thread; all begin together when the last has come. Seconds from
// the first begin to the last end.
double run_together(runtime::ThreadPool& pool, const std::function<void(int worker)>& work);

}  // namespace tessera::app
