// Tuning: searches the spaces of all tasks of models or operations by measuring, within a budget,
// and freezes the winners as a plan that was checked on the whole model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/app/tune/tune_problem.h"
#include "tessera/backend/exec/compile_model.h"
#include "tessera/frontend/plan/plan.h"
#include "tessera/search/model_scorer.h"
#include "tessera/search/policy.h"
#include "tessera/trials/measure/measurer.h"

namespace tessera::app {

enum class TuneLevel : std::uint8_t {
  kKernel,  // schedules, and the algorithms and merging that follow from their times
  kGraph,   // every decision about a model, with the fastest schedules that are known
  kBoth,    // the kernels of the plans that promise most, then every decision with them
};

struct TuneOptions {
  std::vector<TuneSubject> subjects;
  TuneLevel level = TuneLevel::kKernel;
  exec::ModelOptions model;
  target::Target target;  // the machine; its cores are those of `measure`: target::code_target()
  measure::MeasureOptions measure;  // threads included
  // Where trials are measured; empty: workers on this machine.
  std::function<Result<std::unique_ptr<measure::Measurer>>(std::vector<measure::MeasuredTask> tasks,
                                                           const target::Target& target,
                                                           const measure::MeasureOptions&)>
      start_measurer;

  double budget_s = 0;  // wall clock of the whole call; 0: no limit
  std::function<double()>
      elapsed_s;            // since the call; empty: by the clock. Tests turn it themselves
  std::int64_t trials = 0;  // in all, those of earlier sessions included; 0: no limit
  std::int64_t trials_per_task = 0;  // likewise of each task, the default included; 0: no limit
  // Candidates are timed inside the running model instead of alone: one model, on this machine's
  // processor.
  bool in_place = false;
  int contention = 0;                   // copies of the model that run meanwhile, in place
  std::string policy = "evolutionary";  // of kernels
  std::string plan_policy = "cut";      // of levels graph and both
  search::PolicyOptions policy_options;
  search::LearnerOptions learner;  // model "none": the policy works without
  // A learner.pretrained that cannot be used is noted and left out, not an error.
  bool pretrained_optional = false;
  std::size_t batch = 0;  // trials of a round; 0: by what a trial costs
  std::vector<std::string> sources;
  std::vector<std::string> tasks;   // keys; empty: all. Others keep their default schedules
  std::vector<std::string> judges;  // weights of networks that order plans; empty: sums of kernels
  plan::Decisions start;            // of an earlier plan: levels graph and both go on from it
  std::int64_t plans = 0;           // that are measured as whole models, at most; 0: no limit
  bool recombine = true;            // try second bests in the whole model
  // Losers are timed as fully as winners and no task stops early: a table for simulate().
  bool record_space = false;
  std::string database;  // file; empty: nothing is kept
  std::uint64_t seed = 1;
  std::string command;  // noted in the session
  std::string version;  // of the program, likewise; empty: without its commit
};

struct TuneProgress {
  enum class Phase : std::uint8_t { kDefaults, kSearch, kFinals, kWholeModel };
  Phase phase = Phase::kDefaults;
  std::string task;  // measured now: name, algorithm and sizes
  std::size_t tasks = 0, live_tasks = 0;
  std::size_t defaults = 0;  // tasks whose default was measured, whatever came of it
  std::int64_t trials = 0, failures = 0;
  double best_s = 0;  // of that task
  // Sums of weighted tasks over all subjects, as far as their times are known; 0: none is. What was
  // gained is told by comparisons with the default alone (ConfirmedGains).
  double before_s = 0, after_s = 0;
  double expected_gain = 0;  // share of after_s that the rest of the budget may gain
  double elapsed_s = 0, remaining_s = 0;
  bool busy = false;
  measure::Capacity capacity;  // where trials are measured
  double trials_per_s = 0;     // of this session
};

struct TuneCallbacks {
  std::function<void(const TuneProgress&)> progress;
  std::function<void(const std::string&)> note;  // one line for people
  std::function<bool()> interrupted;             // asked between trials
  // After an interrupt, before the whole model is checked: the best so far, in case that check
  // never ends. A plan that fails it is not in the result.
  std::function<void(const plan::Plan&)> save;
};

struct TaskReport {
  std::string key, name, algorithm, shape;
  double weight = 0;   // uses over all subjects
  bool used = false;   // in the plan
  bool tuned = false;  // was searched
  bool cold = false;   // timed with its constants in memory
  bool now = false;    // the time after comes from this session
  // The time after is that of trials, the luckiest of many: it was not timed in turns with the
  // default at the end.
  bool estimated = false;
  bool reached = true;  // false: the budget ended before its turn; it keeps its default, untimed
  double before_s = 0, after_s = 0, flops = 0;
  // Fastest trial, of all (as the finals timed it, where they did) and of this session; 0: none.
  double best_s = 0, session_best_s = 0;
  std::int64_t trials = 0, earlier = 0;          // trials include earlier ones
  std::map<std::string, std::int64_t> failures;  // by outcome
  std::map<std::string, std::int64_t> reasons;   // of the failures: "outcome: reason"
  std::string candidate;
};

struct SubjectReport {
  std::string name;
  bool is_op = false;
  double before_s = 0, after_s = 0;  // whole models timed side by side; operations: their task
  double max_error = 0;              // relative to what is allowed, against the untuned model
  bool untuned_checked = false;      // that one was compared with code made in another way
  bool now = true;                   // false: some of the times are those of earlier sessions
  bool estimated = false;            // of an operation: as that of its tasks
  bool trusted = true;               // enough samples that no other process disturbed
  bool checked = true;  // false: the budget had no room for it; kernels were checked one by one
};

// What tuning the decisions of a model found.
struct GraphReport {
  std::int64_t points = 0, tasks = 0;     // to decide; kernels of plans that were measured
  std::int64_t judged = 0, measured = 0;  // plans: by sums of kernels, as whole models
  struct Change {
    std::string family, key, value;
  };
  std::vector<Change> changes;  // of the plan, against the rules
  struct Plan {
    std::string found_by;
    std::size_t changes = 0;
    double judged_share = 0;           // of the rules' plan, by sums of kernels; 0: not known
    double before_s = 0, after_s = 0;  // the fastest plan until then and this one, side by side
    double share = 0;                  // of the rules' plan, timed beside it too
    bool kept = false;                 // became the fastest
  };
  std::vector<Plan> plans;  // as they were measured
  double untuned_s = 0;     // of the rules' plan with default schedules; 0: kernels were not tuned
};

// Seconds. build, run and model are those of workers and overlap with the others.
struct TuneTimes {
  double total = 0, build = 0, run = 0, model = 0, search = 0, waiting = 0, finals = 0,
         whole_model = 0;
};

enum class TuneState : std::uint8_t {
  kDone,
  kInterrupted,
  kNoMeasurement,  // no task has a time: there is no plan
  kRejected,       // the results of the tuned model are wrong: there is no plan
};

struct TuneResult {
  TuneState state = TuneState::kDone;
  std::vector<TaskReport> tasks;  // by time spent in them, longest first
  std::vector<SubjectReport> subjects;
  plan::Plan plan;
  plan::Plan unproved;  // what seemed faster and was not kept; no tasks: there is none
  GraphReport graph;    // of levels graph and both
  // Sums of weighted tasks over all subjects: defaults as timed last, the fastest of all trials,
  // the fastest of this session (of all where it had no trial, as in a space that is used up). 0: a
  // task has none.
  double sum_default_s = 0, sum_best_s = 0, sum_session_s = 0;
  std::int64_t session = 0, trials = 0, earlier = 0;
  std::int64_t left_aside = 0;  // of the earlier: there was no time to learn from them
  std::int64_t disturbed = 0;   // times that were shared with other work, and do not count
  std::string stopped_by;       // "budget", "trials", "no more gain", ...
  // Files of the trained model that judged candidates; empty: none did.
  std::vector<std::string> pretrained;
  std::string database_error;  // not empty: later trials were not kept
  bool busy = false;           // the machine was, for a good part of the time
  TuneTimes times;
};

// Starts worker processes first: call it before any thread is started. kUnavailable: the database
// cannot be had; kUnsupported: a model that cannot be compiled whole.
Result<TuneResult> tune(const TuneOptions& options, const TuneCallbacks& callbacks);

}  // namespace tessera::app
