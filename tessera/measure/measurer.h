// Builds and runs candidates elsewhere: a crash, a hang or a wild write costs one trial.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/measure/measurement.h"
#include "tessera/support/result.h"
#include "tessera/target/target.h"
#include "tessera/te/dag.h"

namespace tessera::measure {

// Called inside the workers, which are forked and so know them: tests of failures use them.
struct WorkerHooks {
  std::function<void(const Trial& trial)> before_build;
  // In place of each call of a candidate; `call` is the candidate, `params` its parameters.
  std::function<void(const Trial& trial, const std::function<void()>& call,
                     std::span<void* const> params)>
      call;
};

struct MeasureOptions {
  int threads = 1;  // of the measured code, on the first cores
  // 0: one per core that the measured code leaves free. Where it leaves none, one per core, and
  // they stand still while a candidate is timed.
  int build_workers = 0;
  double build_timeout_s = 10;
  double run_timeout_s = 10;  // of one trial; also at most ~20 times the incumbent per call
  // Sampling: until the interval is tight, the candidate clearly loses, or the limits are reached.
  int min_samples = 3, max_samples = 12;
  double sample_s = 1e-3;      // calls are repeated until a sample takes at least this long
  double trial_limit_s = 0.3;  // of timed running
  double loser_factor = 1.5;   // clearly above incumbent * this after min_samples: censored
  bool check_results = true;
  bool cold_caches = false;
  std::uint64_t seed = 1;  // of the inputs
  WorkerHooks hooks;
};

// The state of the machine as the measurer sees it.
struct MachineState {
  double calibration_s = 0;       // latest
  double calibration_best_s = 0;  // fastest seen: what an undisturbed machine does
  double waiting_share = 0;       // of running time lately spent waiting for a core
  bool busy = false;              // something else is using the cores
};

// Trials go in, measurements come out in any order. One owner thread.
class Measurer {
 public:
  virtual ~Measurer() = default;

  virtual void submit(std::vector<Trial> trials) = 0;
  // Blocks until at least one measurement is there (or none is pending: empty), or `timeout_s`.
  virtual std::vector<Measurement> collect(double timeout_s) = 0;
  // Trials submitted whose measurement collect() has not yet returned.
  virtual std::size_t pending() const = 0;
  // Gives up what is pending; the workers stay usable.
  virtual void cancel() = 0;
  // Builds the trials and times them in turns, side by side, all of them fully. Goes before what
  // is pending; measurements in the order of the trials. At most 64 trials.
  virtual std::vector<Measurement> compare(const std::vector<Trial>& trials) = 0;
  virtual MachineState machine() const = 0;
};

// Worker processes on this machine, forked from a small server that is itself forked before any
// thread is started: call it early. `tasks` are known to all workers; trials name them by index.
// All processes end with the caller's, also when it is killed. A trial whose worker is killed from
// outside is tried once more.
Result<std::unique_ptr<Measurer>> start_local_measurer(std::vector<te::Dag> tasks,
                                                       const target::Target& target,
                                                       const MeasureOptions& options);

}  // namespace tessera::measure
