// The search of a tuning: rounds of trials for the tasks that promise most, records as they come.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/driver/tune/tune.h"
#include "tessera/record/record_store.h"
#include "tessera/search/task_scheduler.h"
#include "tessera/search/task_search.h"

namespace tessera::driver {

// A candidate that was timed beside the others of its task.
struct Finalist {
  std::string candidate, schedule;  // text
  double seconds = 0;
  bool is_default = false;
};

class TuneSession {
 public:
  using Clock = std::chrono::steady_clock;

  // The budget counts from `start`.
  static Result<std::unique_ptr<TuneSession>> start(const TuneOptions& options,
                                                    const TuneCallbacks& callbacks,
                                                    TuneProblem problem, Clock::time_point start);

  const TuneProblem& problem() const { return problem_; }
  std::size_t tasks() const { return problem_.tasks.size(); }

  // Defaults first, then rounds until something ends it: returns what.
  std::string search();
  // Times the best few of a task side by side, the default among them; fastest first, at least the
  // default when it was ever timed. Without `side_by_side`: from what was recorded.
  std::vector<Finalist> finals(std::size_t task, bool side_by_side);
  void end(TuneState state);

  // Seconds of an option by `seconds` (one per task, 0: unknown); infinite when one is unknown.
  static double cost(const std::vector<TaskUse>& uses, const std::vector<double>& seconds);
  // Fastest time so far of each task, 0: none.
  std::vector<double> best_seconds() const;
  std::vector<double> default_seconds() const { return before_s_; }
  // The cheapest option of each choice.
  std::vector<std::size_t> choose(const std::vector<double>& seconds) const;
  double total(const std::vector<double>& seconds, const std::vector<std::size_t>& options) const;

  bool interrupted() const { return callbacks_.interrupted && callbacks_.interrupted(); }
  double elapsed_s() const;
  double remaining_s() const;  // of the whole budget; infinite without one
  void report_progress(TuneProgress::Phase phase, std::size_t task, bool force = false);
  void note(const std::string& line) const {
    if (callbacks_.note) callbacks_.note(line);
  }
  TaskReport describe(std::size_t task) const;
  void describe(TuneResult* result) const;

 private:
  struct Pending {
    std::size_t task = 0, round = 0;
    space::Candidate candidate;
    schedule::Schedule steps;
    int disturbed = 0;  // times so far
  };
  struct Round {
    std::size_t task = 0, left = 0;
    std::int64_t trials = 0;
  };

  TuneSession(const TuneOptions& options, const TuneCallbacks& callbacks, TuneProblem problem,
              Clock::time_point start);
  Result<void> open_database();
  Result<void> make_searches();
  Result<void> resume(std::size_t task);
  // `seconds` as if the calibration kernel had taken what it took first in this search.
  double at_reference(double seconds, double calibration_s);
  record::Filter filter_of(std::size_t task) const;  // the records of the task that count here
  Result<std::int64_t> known_records(std::size_t task) const;
  bool is_tuned(std::size_t task) const;

  void measure_defaults();
  // Asks the pretrained model where the first rounds promise most.
  void expect();
  bool submit(std::size_t task, const std::vector<space::Candidate>& candidates, std::size_t round);
  // Awaits what comes of it.
  measure::Trial make_trial(Pending pending);
  void submit_again(Pending pending);
  // A time shared with other work says nothing about the candidate: neither the search nor the
  // records learn of it. True: it will be measured again.
  bool take_disturbed(const Pending& pending, const measure::Measurement& m);
  void fill();
  std::size_t round_size(std::size_t task) const;
  // Trials that the limits leave to the task, and to all together.
  std::size_t trials_left(std::size_t task) const;
  void collect(double timeout_s);
  void take(const measure::Measurement& m);
  void end_trial(const Pending& pending);
  void finish_round(const Round& round);
  void drop_losers();
  // Once more where other work disturbed a time.
  std::vector<measure::Measurement> compare(const std::vector<measure::Trial>& trials);
  void store(const std::string& key, const std::string& candidate, const std::string& schedule,
             const measure::Measurement& m, const std::string& policy);
  void flush();
  // Gives up what is pending; after an interrupt not what is running right now.
  void give_up();
  std::optional<std::string> why_stop() const;

  const TuneOptions& options_;
  const TuneCallbacks& callbacks_;
  TuneProblem problem_;
  Clock::time_point start_;
  std::unique_ptr<measure::Measurer> measurer_;
  std::unique_ptr<record::RecordStore> store_;  // null: nothing is kept
  std::int64_t session_ = 0;
  std::string database_error_, target_text_;
  std::vector<std::string> known_targets_;  // texts of records that count here
  // The measured code has every core: searching and fitting wait until nothing is being timed.
  bool exclusive_ = false;
  std::unique_ptr<search::Learner> learner_;
  bool noted_error_ = false;    // of the learner
  bool reached_limit_ = false;  // trials of a task
  std::vector<std::unique_ptr<space::Space>> spaces_;
  std::vector<std::unique_ptr<search::TaskSearch>> searches_;
  std::unique_ptr<search::TaskScheduler> scheduler_;
  // Of the default candidates, 0: none. Where all its times were disturbed the last one, which is
  // too long rather than too short.
  std::vector<double> before_s_;
  std::vector<std::int64_t> ended_;  // per task: trials of this session, those given up included
  std::map<std::uint64_t, Pending> pending_;
  std::vector<Round> rounds_;
  std::vector<record::Record> unsaved_;
  std::uint64_t next_id_ = 1;
  std::int64_t trials_ = 0, earlier_ = 0, busy_polls_ = 0, polls_ = 0;
  std::int64_t lost_in_a_row_ = 0;  // trials whose workers went away
  std::int64_t disturbed_ = 0, disturbed_in_a_row_ = 0;
  double reference_s_ = 0;  // of the calibration kernel; 0: not known yet
  std::size_t last_task_ = 0;
  double search_until_s_ = 0, last_progress_s_ = -1, last_flush_s_ = 0;
  TuneTimes times_;
};

}  // namespace tessera::driver
