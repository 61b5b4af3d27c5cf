// The searches of all tasks of a tuning, the cost model they share, and which of them goes next.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/tune/trial_records.h"
#include "tessera/app/tune/tune.h"
#include "tessera/search/task_scheduler.h"
#include "tessera/search/task_search.h"

namespace tessera::app {

class TuneSearches {
 public:
  using Note = std::function<void(const std::string& line)>;

  // `options`, `problem` and `records` must outlive it. With `foreground`, fits happen inside
  // update(). kInvalidArgument for names that there are not.
  static Result<std::unique_ptr<TuneSearches>> make(const TuneOptions& options,
                                                    const TuneProblem& problem,
                                                    const TrialRecords& records, bool foreground,
                                                    Note note);

  std::size_t tasks() const { return searches_.size(); }
  bool is_tuned(std::size_t task) const;
  // The space and the search of a task are made when they are first wanted: some tens of
  // milliseconds, of which a budget may not hold those of all tasks. Errors name the task.
  bool is_open(std::size_t task) const { return searches_[task] != nullptr; }
  Result<void> open(std::size_t task);
  // Of a task that is open.
  const space::Space& space(std::size_t task) const { return *spaces_[task]; }
  search::TaskSearch& task(std::size_t task) { return *searches_[task]; }
  const search::TaskSearch& task(std::size_t task) const { return *searches_[task]; }

  // Fastest time so far and trials of each task, 0: none, or it is not open.
  std::vector<double> best_seconds() const;
  std::vector<std::int64_t> trials() const;
  std::int64_t failures() const;

  // The next task that promises something; none: no task does.
  std::optional<std::size_t> next() { return scheduler_->next(); }
  std::size_t live() const;  // tasks that go on
  bool stopped(std::size_t task) const { return scheduler_->stopped(task); }
  void stop(std::size_t task) { scheduler_->stop(task); }
  // After `trials` of a task: what it gained, and which options have lost against others.
  // `repeats`: a task that has nothing new goes on with what was timed before.
  void report(std::size_t task, std::int64_t trials, bool repeats = false);
  void drop_losers();
  // A candidate was timed again with more care.
  void correct(std::size_t task, const decide::Candidate& candidate, double seconds);
  // Nothing of the task ran in all its trials: it is left alone.
  bool hopeless(std::size_t task) const;
  void stop_if_hopeless(std::size_t task);
  // Asks the pretrained model where the first rounds promise most, of one task after the other;
  // ends early when `stop` says so.
  void expect(double first_round, const std::vector<std::size_t>& order,
              const std::function<bool()>& stop);
  // Of all subjects together, by so many more trials; not finite: unknown.
  double expected_gain(std::int64_t trials) const { return scheduler_->expected_gain(trials); }
  double objective() const { return scheduler_->objective(); }

  // Takes over what the model learnt meanwhile; with `wait`, from everything observed.
  void update(bool wait = false);
  // Seconds of all fits; notes where a pretrained model was left aside.
  double end();
  // Files of the trained model that takes part; empty: none does.
  const std::vector<std::string>& pretrained() const { return pretrained_; }

 private:
  TuneSearches(const TuneOptions& options, const TuneProblem& problem, const TrialRecords& records,
               Note note)
      : options_(options), problem_(problem), records_(records), note_(std::move(note)) {}
  Result<void> make_learner(const search::PolicyEntry& policy, bool foreground);
  void make_scheduler();

  const TuneOptions& options_;
  const TuneProblem& problem_;
  const TrialRecords& records_;
  Note note_;
  const search::PolicyEntry* policy_ = nullptr;
  std::unique_ptr<search::Learner> learner_;  // null: policies work from measured times alone
  std::vector<std::string> pretrained_;
  bool noted_error_ = false;                           // of the learner
  bool noted_program_ = false;                         // that it failed
  std::vector<std::uint64_t> seeds_;                   // by task, whatever order they are opened in
  std::vector<std::unique_ptr<space::Space>> spaces_;  // null: not open
  std::vector<std::unique_ptr<search::TaskSearch>> searches_;
  std::unique_ptr<search::TaskScheduler> scheduler_;
};

}  // namespace tessera::app
