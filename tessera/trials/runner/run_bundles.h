// Runs the candidates of bundles on this machine and writes a record of each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/trials/measure/options.h"

namespace tessera::runner {

struct RunnerOptions {
  std::vector<std::string> bundles;
  std::string output;   // JSON lines; those of an earlier call stay and are not measured again
  int threads = 0;      // of the measured code; 0: what each bundle was sampled for
  double budget_s = 0;  // 0: no limit
  // Also where this machine's processor, caches or vectors are not those that the candidates were
  // drawn for. Records then name both: " ran=" follows their target.
  bool any_machine = false;
  measure::MeasureOptions measure = measure::survey_options();  // `threads` and `seed` are not used
  std::string command, version;                                 // noted in the session
};

struct RunnerProgress {
  std::string bundle, task;
  std::int64_t candidates = 0, done = 0;  // of all bundles; done: with earlier ones
  std::int64_t records = 0, valid = 0;    // of this call
  double elapsed_s = 0;
};

struct RunnerCallbacks {
  std::function<void(const RunnerProgress&)> progress;  // after each record
  std::function<bool()> interrupted;
};

struct RunnerResult {
  std::int64_t records = 0, valid = 0, earlier = 0;
  std::string stopped_by;  // "done", "budget", "an interrupt"
};

// Forks processes: call it before any thread is started. All bundles are opened before the first
// candidate runs. kInvalidArgument: a bundle is damaged, or numbers make no sense; kUnsupported:
// its code needs what this machine lacks, or is for another one; kUnavailable: processes keep going
// away.
Result<RunnerResult> run_bundles(const RunnerOptions& options, const RunnerCallbacks& callbacks);

}  // namespace tessera::runner
