// Trials on their way: what tunings, collections and builds of datasets do with a measurer, and
// with what comes of it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/tune/trial_records.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/support/clock.h"
#include "tessera/trials/measure/calibration.h"
#include "tessera/trials/measure/measurer.h"

namespace tessera::app {

// Workers on this machine, which compute the right outputs of large tasks by default schedules.
Result<std::unique_ptr<measure::Measurer>> start_workers(std::vector<measure::MeasuredTask> tasks,
                                                         const target::Target& target,
                                                         measure::MeasureOptions options);

struct LoopTask {
  std::string key;                 // of the measurer
  bool cold_caches = false;        // as of measure::MeasuredTask; its records say so
  bool unchecked = false;          // outputs are compared with nothing; its records say so
  std::int64_t evicted_bytes = 0;  // as of measure::MeasureOptions; its records say so
  bool feels_memory = false;       // its data is not all in the caches of a core
  std::string model;               // key of the model that trials in place run in
  bool contended = false;          // other work on the cores is wanted: no record is quiet
};

inline constexpr std::uint64_t kNoRound = std::numeric_limits<std::uint64_t>::max();

// A candidate that is to be measured.
struct Attempt {
  std::size_t task = 0;  // of the loop
  decide::Candidate candidate;
  schedule::Schedule steps;
  std::string text;         // of the candidate, for its record
  std::string policy;       // likewise
  double incumbent_s = 0;   // as measure::Trial
  bool final = false;       //
  std::uint64_t group = 0;  // of the caller, or kNoRound
  bool in_place = false;    // as measure::Trial
  bool together = false;    //
};

struct LoopTimes {  // seconds; build and run are those of workers
  double build = 0, run = 0, waiting = 0;
};

class TrialLoop {
 public:
  // What came of an attempt. The answer is the number of the trial in its record; none: it is not
  // kept. `disturbed`: its times were shared with other work, and say nothing about the candidate.
  using OnEnd = std::function<std::optional<std::int64_t>(
      const Attempt& attempt, const measure::Measurement& m, bool disturbed)>;

  // What a machine measured turned out to be false; its records are gone, or a note says why not.
  using OnDoubt = std::function<void(std::int64_t machine, const std::string& note)>;
  void on_doubt(OnDoubt tell) { on_doubt_ = std::move(tell); }

  // `records` must outlive it. An attempt whose time was disturbed is measured again up to
  // `repeats` times before it ends.
  TrialLoop(std::unique_ptr<measure::Measurer> measurer, std::vector<LoopTask> tasks, int repeats,
            TrialRecords* records, OnEnd on_end);

  void submit(std::vector<Attempt> attempts);
  // In place, in one model: attempts of a task take turns. A run that other work disturbed is not
  // repeated; its records are not quiet.
  void submit_in_place(std::vector<Attempt> attempts);
  // Waits until something has ended, or for so long; writes records from time to time.
  void collect(double timeout_s);
  // Gives up what is pending; with `wait` not what is running right now.
  void give_up(bool wait);
  std::size_t pending() const { return measurer_->pending(); }
  std::size_t pending_of(std::size_t task) const;

  // Side by side; all of them once more where other work disturbed a time and `again` agrees.
  std::vector<measure::Measurement> compare(const std::vector<Attempt>& attempts,
                                            const std::function<bool()>& again);
  // Keeps what compare() gave.
  void keep(const Attempt& attempt, const measure::Measurement& m, std::int64_t trial);

  // Why nothing more can be measured; empty: it can.
  struct Trouble {
    const char* what = nullptr;  // in a few words
    std::string reason;
  };
  std::optional<Trouble> trouble() const;

  measure::MachineState machine() const { return measurer_->machine(); }
  measure::Capacity capacity() const { return measurer_->capacity(); }
  bool was_busy() const { return polls_ > 0 && busy_polls_ * 4 > polls_; }  // a good part of it
  std::int64_t disturbed() const { return disturbed_; }
  const LoopTimes& times() const { return times_; }

 private:
  struct Pending {
    Attempt attempt;
    int disturbed = 0;  // times so far
  };

  measure::Trial trial_of(const Attempt& attempt, std::uint64_t id) const;
  measure::Trial await(Pending pending);
  void take(measure::Measurement m);
  void forget_doubted();

  std::unique_ptr<measure::Measurer> measurer_;
  std::vector<LoopTask> tasks_;
  int repeats_;
  TrialRecords* records_;
  OnEnd on_end_;
  OnDoubt on_doubt_;
  std::map<std::uint64_t, Pending> pending_;
  std::uint64_t next_id_ = 1;
  std::int64_t lost_in_a_row_ = 0, disturbed_ = 0, disturbed_in_a_row_ = 0;
  std::string lost_reason_;
  std::int64_t polls_ = 0, busy_polls_ = 0;
  std::map<std::int64_t, measure::MemoryWatch> memory_;  // by machine: each has its own usual walk
  Clock::time_point flushed_ = Clock::now();
  LoopTimes times_;
};

}  // namespace tessera::app
