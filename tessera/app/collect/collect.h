// Measures candidates of many tasks evenly: records to learn from, not the fastest code.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/app/tune/tune_problem.h"
#include "tessera/machine/target/target.h"
#include "tessera/trials/measure/measurer.h"

namespace tessera::app {

struct CollectOptions {
  std::vector<TuneSubject> subjects;
  target::Target target;
  measure::MeasureOptions measure;  // threads included
  std::vector<std::string> tasks;   // keys of those to measure; empty: all
  std::int64_t per_task = 400;      // records of a task in the end, those in the database included
  // Rounds of this many candidates per task, so that whatever ends the work leaves all tasks even.
  std::int64_t round = 32;
  // Of a round: drawn from the whole space, the rest from the neighbourhood of the fastest so far
  // and of the default. Candidates near the best are rare in a space and the ones that matter.
  double uniform_share = 0.5;
  double least_points = 32;             // spaces with fewer are left out
  double most_flops = 1e12;             // of one task
  std::vector<std::string> algorithms;  // of convolutions with a choice; empty: all
  std::size_t shard = 0, shards = 1;    // tasks whose number modulo `shards` is `shard`
  double budget_s = 0;                  // 0: no limit
  std::string database;                 // file
  std::uint64_t seed = 1;
  std::string command;  // noted in the session
};

struct CollectProgress {
  std::string task;
  std::size_t tasks = 0, complete = 0;
  std::int64_t records = 0, valid = 0, wanted = 0;  // `records` of this call
  double elapsed_s = 0;
};

struct CollectCallbacks {
  std::function<void(const CollectProgress&)> progress;
  std::function<bool()> interrupted;
};

struct CollectResult {
  std::size_t tasks = 0, skipped = 0;  // skipped: spaces too small or work too large
  std::int64_t records = 0, valid = 0, earlier = 0;
  std::int64_t lost = 0;   // trials that other work disturbed or whose worker ended: others follow
  std::string stopped_by;  // "done", "budget", "an interrupt"
  // Where the time went: of all, until the first candidate, drawing; of builders (processor time)
  // and of the one that measures.
  double elapsed_s = 0, prepared_s = 0, draw_s = 0, build_s = 0, run_s = 0;
  std::vector<std::string> bugs;  // candidates that crashed the compiler: what to tell people
};

// Starts worker processes first: call it before any thread is started. Goes on where an earlier
// call with the same database stopped, with other candidates. Candidates whose workers were lost do
// not count. kInvalidArgument: numbers that make no sense; other errors as tune(), and what was
// measured until then is in the database.
Result<CollectResult> collect(const CollectOptions& options, const CollectCallbacks& callbacks);

}  // namespace tessera::app
