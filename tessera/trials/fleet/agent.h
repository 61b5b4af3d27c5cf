// An agent: takes trials from a queue, measures them on this machine and reports what came of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/trials/fleet/fit.h"
#include "tessera/trials/measure/measurer.h"

namespace tessera::fleet {

struct AgentOptions {
  std::string database;   // a file or a URL
  std::string name;       // for people
  std::string version;    // of the program
  target::Target target;  // the machine
  int threads = 1;        // that measured code may have
  Labels labels;
  double calibration_s = 0;  // of the calibration kernel, now
  std::chrono::milliseconds lease{15'000};
  // How long workers may be silent beyond the time limits of what they have before their server is
  // taken to hang.
  double silence_s = 60;
  bool once = false;       // ends with the tunings that it worked for
  double idle_exit_s = 0;  // ends when nothing waited for so long; 0: never
  // Where it measures, as TuneOptions::start_measurer.
  std::function<Result<std::unique_ptr<measure::Measurer>>(std::vector<measure::MeasuredTask> tasks,
                                                           const target::Target& target,
                                                           const measure::MeasureOptions&)>
      start_measurer;
};

struct AgentTotals {
  std::int64_t trials = 0, failed = 0;       // candidates that were reported
  std::int64_t late = 0;                     // ... whose lease was gone
  std::int64_t claimed = 0, given_back = 0;  // trials of the queue: each is one or more candidates
  std::int64_t hung = 0;                     // servers of workers that were ended
  double measuring_s = 0;                    // while it measured
  std::string ended_by;                      // "a signal", "drained", "nothing to do"
};

struct AgentProgress {
  AgentTotals totals;
  std::size_t in_hand = 0, batch = 0;  // trials of the queue: unreported ones, and what it asks for
  double heartbeat_s = 0;              // the latest, in seconds since 1970 by this machine's clock
};

struct AgentCallbacks {
  std::function<bool()> stop;                    // asked several times a second
  std::function<void(const std::string&)> note;  // one line for people
  std::function<void(const AgentProgress&)> progress;
};

// Until it is stopped, drained or has nothing to do. Call it before any thread is started that
// start_measurer does not pause. A database that goes away is waited for; other errors of it end
// the agent. What an agent holds when it ends is finished within a second or given back.
Result<AgentTotals> run_agent(const AgentOptions& options, const AgentCallbacks& callbacks);

}  // namespace tessera::fleet
