#include "tessera/app/tune/tune_searches.h"

#include <algorithm>
#include <utility>

#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/tune/policy_run.h"
#include "tessera/app/tune/tune_costs.h"
#include "tessera/app/tune/tune_pace.h"
#include "tessera/support/hash.h"

namespace tessera::app {
namespace {

// A task that failed this often and never ran gets no more trials.
constexpr std::int64_t kMostFailures = 16;
// Of the budget: what a fit may take, of which there may be two.
constexpr double kFitShare = 0.04;

}  // namespace

Result<std::unique_ptr<TuneSearches>> TuneSearches::make(const TuneOptions& options,
                                                         const TuneProblem& problem,
                                                         const TrialRecords& records,
                                                         bool foreground, Note note) {
  std::unique_ptr<TuneSearches> out(new TuneSearches(options, problem, records, std::move(note)));
  TESSERA_TRY(out->policy_, search::find_policy(options.policy));
  TESSERA_DO(out->make_learner(*out->policy_, foreground));
  out->make_scheduler();
  const std::size_t tasks = problem.tasks.size();
  Rng rng(options.seed);
  for (std::size_t t = 0; t < tasks; ++t) out->seeds_.push_back(rng.next());
  out->spaces_.resize(tasks);
  out->searches_.resize(tasks);
  for (std::size_t t = 0; t < tasks; ++t) {
    if (!out->is_tuned(t)) out->scheduler_->stop(t);
  }
  return out;
}

Result<void> TuneSearches::make_learner(const search::PolicyEntry& policy, bool foreground) {
  if (!policy.uses_model || options_.learner.model == "none") return {};
  search::LearnerOptions learning = options_.learner;
  if (foreground) learning.background = false;
  // A session that goes on waits for a fit of what is known.
  if (options_.budget_s > 0)
    learning.fit_limit_s = std::min(learning.fit_limit_s, kFitShare * options_.budget_s);
  pace_of(options_.target).prepare(&learning);
  if (options_.pretrained_optional && weights_folder().empty()) note_(kNoWeights);
  Result<std::unique_ptr<search::Learner>> made = search::Learner::make(learning);
  if (!made && options_.pretrained_optional && !learning.pretrained.empty()) {
    note_(made.error().message + "; tuning starts without a pretrained model");
    learning.pretrained.clear();
    made = search::Learner::make(learning);
  }
  if (made) {
    learner_ = std::move(made).value();
    pretrained_ = learning.pretrained;
  } else if (made.error().code == ErrorCode::kUnavailable) {
    note_(made.error().message + "; the policy works from measured times alone");
  } else {
    return made.error();
  }
  return {};
}

void TuneSearches::make_scheduler() {
  search::SchedulerOptions schedule;
  schedule.stop_after = options_.record_space ? 0 : pace_of(options_.target).stop_after;
  schedule.seed = options_.seed;
  if (problem_.subjects.size() > 1)
    schedule.objective = search::SchedulerOptions::Objective::kGeometricMean;
  std::vector<search::ScheduledTask> scheduled;
  for (const TuneTask& t : problem_.tasks) {
    scheduled.push_back({search::family_of(t.task.name), t.task.flops,
                         std::vector<double>(problem_.subjects.size(), 0)});
  }
  const auto weigh = [&](const TaskUse& use) {
    scheduled[use.task].weights[use.subject] += use.count;
  };
  for (const TaskUse& use : problem_.base) weigh(use);
  for (const TaskUse& use : problem_.others) weigh(use);
  for (const TunePoint& p : problem_.points) {
    for (const std::vector<TaskUse>& uses : p.uses) std::for_each(uses.begin(), uses.end(), weigh);
  }
  scheduler_ = std::make_unique<search::TaskScheduler>(std::move(scheduled), schedule);
}

Result<void> TuneSearches::open(std::size_t t) {
  if (is_open(t)) return {};
  const task::Task& task = problem_.tasks[t].task;
  Result<space::Space> space =
      space::make_space(task.dag, options_.target, {.sources = options_.sources});
  if (!space) return space.error().with_context(fmt::format("task {}", task.name));
  search::PolicyOptions policy_options = options_.policy_options;
  // A session that goes on must not draw again what the last one drew.
  TESSERA_TRY(const std::int64_t known, records_.count(task.key));
  policy_options.seed = hash_bytes(fmt::format("{} {}", seeds_[t], known));
  spaces_[t] = std::make_unique<space::Space>(std::move(space).value());
  searches_[t] =
      std::make_unique<search::TaskSearch>(*spaces_[t], *policy_, policy_options, learner_.get());
  return {};
}

bool TuneSearches::is_tuned(std::size_t task) const {
  const std::vector<std::string>& keys = options_.tasks;
  const std::string& key = problem_.tasks[task].task.key;
  return keys.empty() || std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::vector<double> TuneSearches::best_seconds() const {
  std::vector<double> out;
  for (const auto& s : searches_) out.push_back(s ? s->best_seconds() : 0);
  return out;
}

std::vector<std::int64_t> TuneSearches::trials() const {
  std::vector<std::int64_t> out;
  for (const auto& s : searches_) out.push_back(s ? s->trials() : 0);
  return out;
}

std::int64_t TuneSearches::failures() const {
  std::int64_t sum = 0;
  for (const auto& s : searches_) sum += s ? s->failures() : 0;
  return sum;
}

std::size_t TuneSearches::live() const {
  std::size_t out = 0;
  for (std::size_t t = 0; t < tasks(); ++t) out += scheduler_->stopped(t) ? 0 : 1;
  return out;
}

void TuneSearches::report(std::size_t task, std::int64_t trials, bool repeats) {
  const search::TaskSearch& s = *searches_[task];
  if (trials > 0) {
    scheduler_->set_promise(task, s.promise());
    if (!s.believes_global()) scheduler_->set_expectation(task, 1);
  }
  scheduler_->report(task, s.best_seconds(), trials);
  if (trials > 0 && s.exhausted() && !repeats) scheduler_->stop(task);
  stop_if_hopeless(task);
}

void TuneSearches::correct(std::size_t task, const decide::Candidate& candidate, double seconds) {
  searches_[task]->correct(candidate, seconds);
  scheduler_->revise(task, searches_[task]->best_seconds());
}

bool TuneSearches::hopeless(std::size_t task) const {
  const search::TaskSearch& s = *searches_[task];
  return s.best_seconds() <= 0 && s.failures() >= kMostFailures;
}

void TuneSearches::stop_if_hopeless(std::size_t task) {
  if (hopeless(task)) scheduler_->stop(task);
}

void TuneSearches::drop_losers() {
  for (const std::size_t t : hopeless_tasks(problem_, best_seconds(), trials())) {
    // What the user named is tuned, whatever computes the same faster.
    if (options_.tasks.empty()) scheduler_->stop(t);
  }
}

void TuneSearches::expect(double first_round, const std::vector<std::size_t>& order,
                          const std::function<bool()>& stop) {
  if (!learner_) return;
  for (const std::size_t t : order) {
    if (stop()) return;
    if (!is_open(t) || scheduler_->stopped(t)) continue;
    // Where an earlier session had a round the records say more.
    if (static_cast<double>(searches_[t]->replayed()) < first_round)
      scheduler_->set_expectation(t, searches_[t]->expected_share(seeds_[t]));
  }
}

void TuneSearches::update(bool wait) {
  if (const Result<void> ok = check_program(options_.policy_options);
      !ok && !std::exchange(noted_program_, true))
    note_(ok.error().message + "; the search continues by evolution");
  if (!learner_) return;
  learner_->update();
  if (wait) learner_->wait();
  const std::string error = learner_->state().last_error;
  if (!error.empty() && !std::exchange(noted_error_, true))
    note_(error + "; the search continues without these predictions of the cost model");
}

double TuneSearches::end() {
  if (!learner_) return 0;
  const search::LearnerState learnt = learner_->state();
  if (learnt.tasks_without_global > 0) {
    note_(
        fmt::format("the pretrained model was left aside on {} of {} tasks, where it ordered "
                    "candidates worse than what was measured did",
                    learnt.tasks_without_global, learnt.tasks));
  }
  return learnt.fit_seconds;
}

}  // namespace tessera::app
