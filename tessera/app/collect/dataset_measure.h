// The second and the third step of making a dataset in one: a sample, built and timed on this
// machine. Also for GPUs, whose code no bundle holds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"
#include "tessera/trials/measure/measurer.h"

namespace tessera::app {

struct MeasureSampleOptions {
  std::string folder;               // of a sample
  target::Target target;            // where candidates run
  measure::MeasureOptions measure;  // threads are those of the sample
  bool any_machine = false;         // also where the sample was drawn for another machine
  double budget_s = 0;              // 0: no limit
  std::string database;             // file
  std::string command;              // noted in the session
};

struct MeasureSampleProgress {
  std::string task;
  std::int64_t done = 0, candidates = 0;
  double elapsed_s = 0;
};

struct MeasureSampleResult {
  std::size_t tasks = 0;
  std::int64_t records = 0, valid = 0, earlier = 0;
  std::string stopped_by;  // "done", "budget", "an interrupt"
};

// Candidates of a task are timed in turns, as many as can be at once (measure::kMostCompared) and
// the rest after them, so that what disturbs the machine disturbs them alike. Starts worker
// processes first: call it before any thread is started. Groups that are all in the database are
// not measured again. `progress` returns false to stop. kInvalidArgument: no sample, or one of
// another machine; kUnavailable: the database, or workers that keep going away.
Result<MeasureSampleResult> measure_sample(
    const MeasureSampleOptions& options,
    const std::function<bool(const MeasureSampleProgress&)>& progress);

}  // namespace tessera::app
