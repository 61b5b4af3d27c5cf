// How candidates are measured.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tessera/lang/te/dag.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/schedule/step.h"
#include "tessera/support/result.h"
#include "tessera/trials/measure/measurement.h"

namespace tessera::measure {

struct Built;
struct StandParts;
class InPlaceStand;

// Steps for a task on a target.
using ScheduleOf =
    std::function<Result<schedule::Schedule>(const te::Dag& dag, const target::Target& target)>;

// Called inside the workers, which are forked and so know them: tests of failures use them.
struct WorkerHooks {
  std::function<void(const Trial& trial)> before_build;
  std::function<void(const Trial& trial, Built* built)> after_build;
  // In place of each call of a candidate; `call` is the candidate, `params` its parameters.
  std::function<void(const Trial& trial, const std::function<void()>& call,
                     std::span<void* const> params)>
      call;
  std::function<double()> clock;  // seconds, between the kernels of a model; empty: the clock
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
  double sample_s = 1e-3;  // calls (of devices at most 0.3 ms of them) are repeated until a sample
                           // takes at least this long
  double trial_limit_s = 0.3;  // of timed running
  double loser_factor = 1.5;   // clearly above incumbent * this after min_samples: censored
  bool check_results = true;
  bool cold_caches = false;  // of all tasks; see MeasuredTask
  // What is read between two calls with cold caches of a processor; 0: more than all of them hold.
  std::int64_t evicted_bytes = 0;
  bool confine = true;     // candidates run under limits and a filter of system calls (confine.h)
  std::uint64_t seed = 1;  // of the inputs
  // By which the right outputs of large tasks are computed; empty: by the loops as written, which
  // takes long.
  ScheduleOf reference_schedule;
  // Makes the model that trials in place run in (model_stand.h), inside the run worker; empty:
  // there is none.
  std::function<Result<std::unique_ptr<InPlaceStand>>(const StandParts& parts)> in_place;
  // Candidates of a task that a batch in place may hold: they take turns. Each has its own packed
  // constants.
  std::size_t most_turns = 1;
  // Other work on the cores is wanted: times that it disturbed count like others, in place.
  bool contended = false;
  WorkerHooks hooks;
  std::string bug_folder;  // for what made the compiler crash; empty: that of temporary files
};

// For records to learn from: a slow candidate is worth one honest time, not a precise one.
MeasureOptions survey_options();

}  // namespace tessera::measure
