// What a parallel loop costs before its bodies do anything.
#pragma once

namespace tessera::app {

// Medians over many loops with one iteration a thread. `_all`: until every thread has begun, each
// iteration waiting for the others; without it bodies are empty, and threads that come late find
// nothing left to do.
struct PoolReport {
  int threads = 1;                          // as many as the system granted
  double awake_us = 0, awake_all_us = 0;    // one loop after the other
  double parked_us = 0, parked_all_us = 0;  // all workers asleep before
};

// `parked`: measures loops of sleeping workers, too, which takes seconds.
PoolReport measure_pool(int threads, bool parked = true);

}  // namespace tessera::app
