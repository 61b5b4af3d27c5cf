// How soon searches find fast candidates of tasks that no model has learned from, when nothing
// tells them the default schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"
#include "tessera/trials/measure/measurer.h"

namespace tessera::app {

struct StudiedPolicy {
  std::string name;
  std::string text;  // as policy_variant() reads it
};

struct LanguageEvalOptions {
  std::string data;                                 // folder of a dataset
  std::vector<std::string> networks = {"tenset5"};  // whose tasks are judged
  std::vector<std::string> tasks;                   // keys of those of them to judge; empty: all
  std::string machine;                              // part of the name of its target; empty: all
  std::vector<StudiedPolicy> policies;
  std::vector<std::int64_t> trials = {1, 2, 4, 10, 32, 64};  // ascending
  std::uint64_t seed = 1;
  int seeds = 3;
  std::size_t least_records = 32;  // tasks with fewer timed candidates are left out
  std::size_t most_tasks = 0;      // of each machine, spread over all; 0: all
  int threads = 1;                 // searches beside each other

  // Instead of what was recorded, every candidate of the whole spaces, measured on this machine.
  bool measured = false;
  target::Target target;  // of the code
  measure::MeasureOptions measure;
  // As that of TuneOptions.
  std::function<Result<std::unique_ptr<measure::Measurer>>(std::vector<measure::MeasuredTask> tasks,
                                                           const target::Target& target,
                                                           const measure::MeasureOptions&)>
      start_measurer;
  std::string database;  // keeps the measurements; empty: nobody does

  // Tasks; with `measured` a few times a second. False: stop.
  std::function<bool(std::size_t done, std::size_t total)> progress;
};

// By numbers of trials; of a study that was stopped before its first task, nothing.
struct PolicyShares {
  std::string name;
  // Geometric means over tasks of (best time known / best time found), then over seeds; a task
  // without a valid candidate yet counts as a hundredth.
  std::vector<double> share;
  std::vector<double> low, high;  // of the seeds
  std::vector<std::vector<double>> by_seed;
};

// What searches found of one task: seconds by policy, seed and number of trials; 0: nothing.
struct TaskTimes {
  std::string key, name;
  double default_s = 0, best_s = 0;  // default: 0 where it is not known
  std::vector<std::vector<std::vector<double>>> seconds;
};

// What a network takes on a machine when every task has the fastest of its default and what a
// search has found, by the records: geometric means over the seeds.
struct NetworkTimes {
  std::string name, machine;
  int threads = 1;
  std::size_t tasks = 0, unknown = 0;  // unknown: without records or a recorded default; left out
  double default_s = 0, best_s = 0;    // best: with the best known of every task
  std::vector<std::vector<double>> seconds;  // by policy and number of trials
};

struct LanguageEval {
  std::size_t tasks = 0, candidates = 0;  // candidates: recorded, or measured now
  std::vector<std::int64_t> trials;
  std::vector<PolicyShares> policies;
  std::vector<NetworkTimes> networks;  // on records
  std::vector<TaskTimes> task_times;   // in the order they were done
  bool finished = true;                // else stopped: of the tasks until then
};

// With `measured`, what is the fastest by a search's own times after so many trials, up to three
// candidates, and the default are timed once more, in turns; these times choose among them, as in
// a tuning, and judge the search.
// kInvalidArgument: no such networks or policies, or no task with enough records; with `measured`,
// call it before any thread is started.
Result<LanguageEval> evaluate_language(const LanguageEvalOptions& options);

}  // namespace tessera::app
