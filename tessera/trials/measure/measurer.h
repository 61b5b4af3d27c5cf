// Builds and runs candidates elsewhere: a crash, a hang or a wild write costs one trial.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"
#include "tessera/trials/measure/measurement.h"
#include "tessera/trials/measure/options.h"

namespace tessera::measure {

// The state of the machine as the measurer sees it.
struct MachineState {
  double calibration_s = 0;       // latest
  double calibration_best_s = 0;  // fastest seen: what an undisturbed machine does
  double waiting_share = 0;       // of running time lately spent waiting for a core
  bool busy = false;              // something else is using the cores
};

// How much a measurer can do at once, and what waits for it.
struct Capacity {
  std::size_t machines = 1;  // that measure side by side
  std::size_t queued = 0;    // trials that none of several machines has taken yet
  bool elsewhere = false;    // the cores of this machine measure nothing
};

struct MeasuredTask {
  std::string key;  // by which trials name it
  te::Dag dag;
  // Constants come from memory, as in a model that has more of them than the cache holds; each
  // sample is then one call.
  bool cold_caches = false;
};

inline constexpr std::size_t kMostCompared = 64;

// Trials go in, measurements come out in any order. One owner thread.
class Measurer {
 public:
  virtual ~Measurer() = default;

  virtual void submit(std::vector<Trial> trials) = 0;
  // As compare(), but the measurements come from collect(): others can be built meanwhile. At most
  // kMostCompared trials; a measurer that runs nothing takes them one by one. Where the first is in
  // place all are, in one model: any number, those of a task take turns.
  virtual void submit_together(std::vector<Trial> trials) { submit(std::move(trials)); }
  // Blocks until at least one measurement is there (or none is pending: empty), or `timeout_s`.
  virtual std::vector<Measurement> collect(double timeout_s) = 0;
  // Trials submitted whose measurement collect() has not yet returned.
  virtual std::size_t pending() const = 0;
  // Gives up what is pending; the workers stay usable.
  virtual void cancel() = 0;
  // Builds the trials and times them in turns, side by side, all of them fully. Goes before what
  // is pending; measurements in the order of the trials. At most kMostCompared trials.
  virtual std::vector<Measurement> compare(const std::vector<Trial>& trials) = 0;
  virtual MachineState machine() const = 0;
  virtual Capacity capacity() const { return {}; }
  // Machines (Measurement::machine) that turned out to tell what others do not measure, each once:
  // nothing that came of them is to be believed.
  virtual std::vector<std::int64_t> take_doubted() { return {}; }
};

// Where candidates can be measured, by the name that users give: "host", or the device at hand
// ("cuda", "opencl"). A process of its own asks the driver: what a driver has begun does not
// survive the fork of a worker. Call it before any thread is started. kUnavailable: there is no
// such device.
Result<target::Target> ask_target(const std::string& name);

// Worker processes on this machine, forked from a small server that is itself forked before any
// thread is started: call it early. `tasks` are known to all workers; trials name them by key.
// All processes end with the caller's, also when it is killed. A trial whose worker is killed from
// outside is tried once more.
// Candidates for a GPU run in one worker that owns the device; no driver may have been used in this
// process before.
Result<std::unique_ptr<Measurer>> start_local_measurer(std::vector<MeasuredTask> tasks,
                                                       const target::Target& target,
                                                       const MeasureOptions& options);

}  // namespace tessera::measure
