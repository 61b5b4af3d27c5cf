// Agents that measure nothing, on a real queue: what its database bears.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/support/result.h"

namespace tessera::fleet {

struct SimulateOptions {
  std::string database;  // a file or a URL
  int agents = 4;        // each with a connection and a thread of its own
  std::int64_t trials = 10'000;
  int batch = 1;     // results of one report
  int claimed = 64;  // trials of one claim
  double rate = 0;   // trials per second of each agent, which claims `batch` at once; 0: no pace
  std::int64_t payload_bytes = 1'500, result_bytes = 300;
  std::function<bool()> interrupted;  // asked between calls, by every agent
};

struct Simulated {
  std::int64_t trials = 0, claims = 0, reports = 0, heartbeats = 0;
  double enqueue_s = 0;  // before the clock of the agents began
  double wall_s = 0;     // of the agents, until all trials were reported
  double own_cpu_s = 0;  // of this process meanwhile
  double claim_p50_ms = 0, claim_p99_ms = 0, report_p50_ms = 0, report_p99_ms = 0;
};

// Leaves nothing in the queue. kRunFailed: a trial was lost or counted twice; kUnavailable:
// interrupted, or the database cannot be reached.
Result<Simulated> simulate(const SimulateOptions& options);

}  // namespace tessera::fleet
