// The search of a tuning: rounds of trials for the tasks that promise most, records as they come.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/app/tune/confirmed_gains.h"
#include "tessera/app/tune/in_place_race.h"
#include "tessera/app/tune/trial_loop.h"
#include "tessera/app/tune/tune.h"
#include "tessera/app/tune/tune_searches.h"
#include "tessera/support/clock.h"

namespace tessera::app {

// Policy of records that were taken side by side.
inline constexpr const char* kFinalPolicy = "final";

// A candidate that was timed beside the others of its task.
struct Finalist {
  std::string candidate, schedule;  // text
  double seconds = 0;
  bool is_default = false;
  double chosen_by_s = 0;  // of samples that `seconds` is not made of, where there are enough
  bool now = false;        // timed in this session
  bool raced = false;      // in turns with the default, by times that did not choose it
  bool is_estimate() const { return !is_default && !raced; }
};

class TuneSession {
 public:
  // The budget counts from `start`.
  static Result<std::unique_ptr<TuneSession>> start(const TuneOptions& options,
                                                    const TuneCallbacks& callbacks,
                                                    TuneProblem problem, Clock::time_point start);

  const TuneProblem& problem() const { return problem_; }
  std::size_t tasks() const { return problem_.tasks.size(); }

  // Defaults first, then rounds until something ends it: returns what. `until_s`: of the budget is
  // spent by then; else a part of it is kept for the finals and the whole model. Where the budget
  // does not hold all defaults, those of the heaviest tasks come first, and the others when their
  // first round comes, if it does. kUnavailable: the database; errors of spaces name the task.
  Result<std::string> search(std::optional<double> until_s = std::nullopt);
  // The same with candidates in the running model, a few of every task that the untuned model runs
  // in each batch. Within a budget the last part of it is a race of the best few.
  Result<std::string> search_in_place();
  // Times the best few of a task side by side, `most` and the default; fastest first, at least the
  // default when it was ever timed. With 0: from what was recorded. None of a task that the search
  // did not reach.
  static constexpr std::size_t kFinalists = 5;
  std::vector<Finalist> finals(std::size_t task, std::size_t most);
  void end(TuneState state);

  // Fastest time so far of each task, 0: none.
  std::vector<double> best_seconds() const { return searches_->best_seconds(); }
  // Likewise, as the finals timed it, where they did: the least of many trials promises too much.
  double best_of_all(std::size_t task) const {
    return compared_best_s_[task] > 0 ? compared_best_s_[task] : best_seconds(task);
  }
  // Likewise of this session alone.
  double session_best(std::size_t task) const {
    const double s = searches_->is_open(task) ? searches_->task(task).session_best_seconds() : 0;
    return s > 0 ? std::max(s, compared_best_s_[task]) : 0;
  }
  double best_seconds(std::size_t task) const {
    return searches_->is_open(task) ? searches_->task(task).best_seconds() : 0;
  }
  std::vector<double> default_seconds() const { return before_s_; }

  bool interrupted() const { return callbacks_.interrupted && callbacks_.interrupted(); }
  double elapsed_s() const;
  double remaining_s() const;  // of the whole budget; infinite without one
  // What building, checking and timing the whole model will take, roughly.
  double whole_model_s() const;
  // What building every node of a model by itself takes, of one that is tuned in place: its
  // untuned outputs are compared with those of its nodes.
  double untuned_check_s() const;
  // Whether the budget has room for work of so many seconds, or nearly so.
  bool has_room(double seconds) const;
  double trial_s() const { return trial_s_; }  // of the wall clock, in the search that was
  // Whether the search came to the task.
  bool reached(std::size_t task) const { return searches_->is_open(task); }
  TrialRecords& records() { return records_; }
  std::int64_t left_aside() const { return all_left_aside_; }
  void report_progress(TuneProgress::Phase phase, std::size_t task, bool force = false);
  void note(const std::string& line) const {
    if (callbacks_.note) callbacks_.note(line);
  }
  TaskReport describe(std::size_t task) const;
  void describe(TuneResult* result) const;

 private:
  struct Round {
    std::size_t task = 0, left = 0;
    std::int64_t trials = 0;
  };

  TuneSession(const TuneOptions& options, const TuneCallbacks& callbacks, TuneProblem problem,
              Clock::time_point start);
  Result<void> prepare();
  // Makes the search of a task, and tells it what earlier sessions found.
  Result<void> open(std::size_t task);
  Result<void> resume(std::size_t task);
  // Records of the task that say something here, oldest first, at most as many as there is time to
  // read.
  Result<std::vector<record::Record>> earlier_records(std::size_t task) const;
  void replay(std::size_t task, const std::vector<const record::Record*>& records);
  // `seconds` as if the calibration kernel had taken what it took first in this search.
  double at_reference(double seconds, double calibration_s, std::int64_t machine);
  bool in_place() const { return options_.in_place; }
  // ... or, of a kernel in place, as if the default had taken what it took first.
  double comparable(std::size_t task, double seconds, double calibration_s, double default_s,
                    std::int64_t machine = 0);
  // The next trial of a task in place, beside so many of the same batch: the default, something
  // new, or, where the space has nothing new, what was timed before, once.
  std::optional<Attempt> next_in_place(std::size_t task, std::size_t chosen);
  // `left_s`: that it may take.
  std::vector<Attempt> batch_in_place(const std::vector<std::size_t>& tasks, double left_s);
  std::size_t turns_within(double left_s) const;
  double untuned_s() const;  // of the untuned model, as far as it is known
  // Of the wall clock, with so many entrants of each of `raced` tasks.
  double estimated_race_s(std::size_t entrants, std::size_t raced) const;
  bool wants_more_in_place(std::size_t task) const;
  void report_in_place(const std::vector<std::size_t>& placed);
  std::string search_batches(const std::vector<std::size_t>& placed,
                             const std::function<double()>& until_s, double* batch_s);
  std::vector<decide::Candidate> entrants_of(std::size_t task, std::size_t most) const;
  // None: the rules of schedules refuse the candidate.
  std::optional<Attempt> attempt_in_place(std::size_t task, const decide::Candidate& c,
                                          const std::string& policy, double seconds) const;
  double share_of(std::size_t task) const;
  void race_in_place(const std::vector<std::size_t>& placed);
  void settle_race(std::size_t task);
  std::vector<Finalist> finals_in_place(std::size_t task) const;  // after a race
  // Times of the task as if the default had taken what it usually took: its first may have been
  // disturbed.
  void settle_in_place(std::size_t task);

  Result<std::string> run_rounds();
  Result<void> measure_defaults();
  bool wants_default(std::size_t task) const {
    return before_s_[task] <= 0 && !default_failed_[task];
  }
  bool submit(std::size_t task, const std::vector<decide::Candidate>& candidates,
              const std::string& policy, std::uint64_t round);
  Result<void> fill();
  std::size_t round_size(std::size_t task) const;
  // Trials of the task in earlier sessions, those left aside too.
  std::int64_t earlier_of(std::size_t task) const;
  // Trials that the limits leave to the task, and to all together.
  std::size_t trials_left(std::size_t task) const;
  void collect(double timeout_s);
  // Times the fastest of tasks that had a round beside their defaults.
  void confirm_fastest();
  void confirm(std::size_t task, const search::Observation& fastest);
  double to_reference_of(const std::vector<measure::Measurement>& compared);
  // What compare() said of the finalists, as far as it may be believed.
  void take_compared(std::size_t task, const std::vector<Attempt>& attempts,
                     const std::vector<measure::Measurement>& compared,
                     std::vector<Finalist>* finalists);
  // What came of a trial; the number of its record.
  std::optional<std::int64_t> take(const Attempt& attempt, const measure::Measurement& m,
                                   bool disturbed);
  void end_trial(const Attempt& attempt);
  // Of a machine that tells what others do not measure: as if it had measured nothing.
  void distrust(std::int64_t machine, const std::string& note_of_records);
  // Another time of the default, in this session.
  void time_default(std::size_t task, double seconds);
  void note_failure(std::size_t task, const std::string& outcome, const std::string& reason);
  std::optional<std::string> why_stop() const;
  double search_until_s() const;            // when the rest of the budget is needed for the end
  double slowed() const;                    // how much other work slows us down
  double building_s(double kernels) const;  // by the cores side by side

  const TuneOptions& options_;
  const TuneCallbacks& callbacks_;
  TuneProblem problem_;
  std::string model_key_;           // of trials in place
  std::size_t nodes_ = 0;           // of the model in place, those that differ
  std::vector<bool> cold_;          // by task: its constants come from memory
  std::vector<std::size_t> order_;  // of the tasks: heaviest of the untuned model first
  Clock::time_point start_;
  // The measured code has every core: searching and fitting wait until nothing is being timed.
  bool exclusive_ = false;
  TrialRecords records_;
  std::unique_ptr<TuneSearches> searches_;
  std::unique_ptr<TrialLoop> loop_;
  // Of the default candidates, 0: none. Where all its times were disturbed the last one, which is
  // too long rather than too short.
  std::vector<double> before_s_;
  std::vector<std::int64_t> default_record_;     // per task: that before_s_ came from; 0: none
  std::vector<std::vector<double>> defaults_s_;  // per task: times of this session
  std::vector<bool> before_now_;                 // per task: before_s_ is of this session
  double trial_s_ = 0, waited_s_ = 0;
  std::vector<std::set<std::string>> timed_now_;  // per task: candidates that this session timed
  std::vector<std::int64_t> ended_;     // per task: trials of this session, those given up included
  std::vector<std::int64_t> reported_;  // per task in place: of these, those the scheduler knows
  // Per task: failures by outcome and reason, those of earlier sessions too.
  std::vector<std::map<std::string, std::int64_t>> reasons_;
  std::vector<bool> default_failed_;  // per task: not tried again, nor by later sessions
  std::vector<Round> rounds_;
  std::int64_t trials_ = 0, earlier_ = 0;
  // Records that there was no time to learn from, by task and in all; they count as trials.
  std::vector<std::int64_t> left_aside_;
  std::int64_t all_left_aside_ = 0, taught_ = 0;
  std::optional<double> resume_until_s_;  // of the budget
  double opening_wall_s_ = 0, opening_cpu_s_ = 0;
  bool reached_limit_ = false;  // trials of a task
  std::optional<double> until_s_;
  double reference_s_ = 0;  // of the calibration kernel; 0: not known yet
  std::map<std::int64_t, std::deque<double>> calibrations_;  // by machine: the last ones
  struct Measured {
    std::size_t task = 0;
    decide::Candidate candidate;
    std::string text;
  };
  std::map<std::int64_t, std::vector<Measured>> measured_by_;  // by machine of a fleet
  std::vector<double> compared_best_s_;  // per task: the winner of the finals; 0: there were none
  ConfirmedGains gains_;
  std::set<std::size_t> to_confirm_;                      // tasks that had a round since
  std::vector<std::vector<decide::Candidate>> proposed_;  // per task in place, the next one last
  std::optional<InPlaceRace> race_;                       // in place, once it has begun
  std::size_t entrants_ = 0;                              // of a task in it, at most
  double confirming_s_ = 0;
  TuneProgress::Phase phase_ = TuneProgress::Phase::kDefaults;
  std::size_t last_task_;
  double last_progress_s_ = -1;
  double searching_s_ = 0, fitting_s_ = 0;
};

}  // namespace tessera::app
