// The search of a tuning: rounds of trials for the tasks that promise most, records as they come.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/driver/tune/trial_loop.h"
#include "tessera/driver/tune/tune.h"
#include "tessera/driver/tune/tune_searches.h"

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

  // Defaults first, then rounds until something ends it: returns what. `until_s`: of the budget is
  // spent by then; else a part of it is kept for the finals and the whole model.
  std::string search(std::optional<double> until_s = std::nullopt);
  // Times the best few of a task side by side, the default among them; fastest first, at least the
  // default when it was ever timed. Without `side_by_side`: from what was recorded.
  std::vector<Finalist> finals(std::size_t task, bool side_by_side);
  void end(TuneState state);

  // Fastest time so far of each task, 0: none.
  std::vector<double> best_seconds() const { return searches_->best_seconds(); }
  std::vector<double> default_seconds() const { return before_s_; }

  bool interrupted() const { return callbacks_.interrupted && callbacks_.interrupted(); }
  double elapsed_s() const;
  double remaining_s() const;  // of the whole budget; infinite without one
  // What building, checking and timing the whole model will take, roughly.
  double whole_model_s() const;
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
  Result<void> resume(std::size_t task);
  // `seconds` as if the calibration kernel had taken what it took first in this search.
  double at_reference(double seconds, double calibration_s);

  void measure_defaults();
  bool submit(std::size_t task, const std::vector<space::Candidate>& candidates,
              std::uint64_t round);
  void fill();
  std::size_t round_size(std::size_t task) const;
  // Trials that the limits leave to the task, and to all together.
  std::size_t trials_left(std::size_t task) const;
  void collect(double timeout_s);
  // What came of a trial; the number of its record.
  std::optional<std::int64_t> take(const Attempt& attempt, const measure::Measurement& m,
                                   bool disturbed);
  void end_trial(const Attempt& attempt);
  void note_failure(std::size_t task, const std::string& outcome, const std::string& reason);
  std::optional<std::string> why_stop() const;
  double search_until_s() const;  // when the rest of the budget is needed for the end

  const TuneOptions& options_;
  const TuneCallbacks& callbacks_;
  TuneProblem problem_;
  std::vector<bool> cold_;  // by task: its constants come from memory
  Clock::time_point start_;
  // The measured code has every core: searching and fitting wait until nothing is being timed.
  bool exclusive_ = false;
  TrialRecords records_;
  std::unique_ptr<TuneSearches> searches_;
  std::unique_ptr<TrialLoop> loop_;
  // Of the default candidates, 0: none. Where all its times were disturbed the last one, which is
  // too long rather than too short.
  std::vector<double> before_s_;
  std::vector<std::int64_t> ended_;  // per task: trials of this session, those given up included
  // Per task: failures by outcome and reason, those of earlier sessions too.
  std::vector<std::map<std::string, std::int64_t>> reasons_;
  std::vector<bool> default_failed_;  // per task, in an earlier session: not tried again
  std::vector<Round> rounds_;
  std::int64_t trials_ = 0, earlier_ = 0;
  bool reached_limit_ = false;  // trials of a task
  std::optional<double> until_s_;
  double reference_s_ = 0;  // of the calibration kernel; 0: not known yet
  std::size_t last_task_ = 0;
  double last_progress_s_ = -1;
  double searching_s_ = 0, fitting_s_ = 0;
};

}  // namespace tessera::driver
