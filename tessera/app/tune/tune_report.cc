// What a session tells of itself, while it runs and afterwards.
#include <algorithm>
#include <cmath>

#include "tessera/app/tune/tune_costs.h"
#include "tessera/app/tune/tune_session.h"
#include "tessera/frontend/task/shape_text.h"

namespace tessera::app {

void TuneSession::report_progress(TuneProgress::Phase phase, std::size_t task, bool force) {
  if (!callbacks_.progress || (!force && elapsed_s() - last_progress_s_ < 0.2)) return;
  last_progress_s_ = elapsed_s();
  TuneProgress p;
  p.phase = phase;
  const TuneTask& t = problem_.tasks[task];
  p.task = t.algorithm.empty() ? t.task.name : t.task.name + " " + t.algorithm;
  p.task += " " + task::shape_text(t.task.dag);
  p.tasks = tasks();
  p.live_tasks = searches_->live();
  p.failures = searches_->failures();
  p.trials = trials_;
  p.best_s = before_s_[task] > 0 ? before_s_[task] / gains_.gain(task) : best_seconds(task);
  for (std::size_t i = 0; i < tasks(); ++i) p.defaults += wants_default(i) ? 0 : 1;
  const KnownSums sums = known_sums(problem_, before_s_, gains_.seconds(before_s_));
  p.before_s = phase == TuneProgress::Phase::kDefaults ? 0 : sums.before_s;
  p.after_s = phase == TuneProgress::Phase::kDefaults ? 0 : sums.after_s;
  p.elapsed_s = elapsed_s();
  const double rate = p.elapsed_s > 0 ? static_cast<double>(trials_ - earlier_) / p.elapsed_s : 0;
  if (options_.budget_s > 0) {
    p.remaining_s = std::max(0.0, remaining_s());
  } else if (options_.trials > trials_ && rate > 0 && phase == TuneProgress::Phase::kSearch) {
    p.remaining_s = static_cast<double>(options_.trials - trials_) / rate;
  }
  if (phase == TuneProgress::Phase::kSearch && p.after_s > 0) {
    const auto more = static_cast<std::int64_t>(rate * p.remaining_s);
    const double gain = searches_->expected_gain(std::max<std::int64_t>(more, 0));
    // The sum counts alternatives too; what they gain is a share of what is used.
    const double whole = problem_.subjects.size() > 1 ? searches_->objective() : p.after_s;
    if (std::isfinite(gain)) p.expected_gain = std::clamp(gain / whole, 0.0, 1.0);
  }
  p.busy = loop_->machine().busy;
  p.capacity = loop_->capacity();
  p.trials_per_s = rate;
  callbacks_.progress(p);
}

TaskReport TuneSession::describe(std::size_t task) const {
  const TuneTask& t = problem_.tasks[task];
  TaskReport r;
  r.key = t.task.key;
  r.name = t.task.name;
  r.algorithm = t.algorithm;
  r.shape = task::shape_text(t.task.dag);
  r.tuned = searches_->is_tuned(task);
  r.cold = cold_[task];
  r.before_s = before_s_[task];
  r.flops = t.task.flops;
  r.reasons = reasons_[task];
  r.reached = searches_->is_open(task);
  r.now = before_now_[task];
  if (!r.reached) return r;
  const search::TaskSearch& search = searches_->task(task);
  r.after_s = r.best_s = best_of_all(task);
  r.session_best_s = session_best(task);
  r.trials = search.trials() + left_aside_[task];
  r.earlier = earlier_of(task);
  const auto& outcomes = search.outcomes();
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const auto outcome = static_cast<measure::Outcome>(i);
    if (outcomes[i] > 0 && !measure::is_timed(outcome))
      r.failures[measure::to_text(outcome)] = outcomes[i];
  }
  return r;
}

void TuneSession::describe(TuneResult* result) const {
  std::vector<double> best, of_session;
  for (std::size_t t = 0; t < tasks(); ++t) best.push_back(best_of_all(t));
  for (std::size_t t = 0; t < tasks(); ++t) {
    const double seconds = session_best(t);
    of_session.push_back(seconds > 0 ? seconds : best[t]);
  }
  const auto sum = [&](const std::vector<double>& seconds, decide::Choice choice) {
    const double all = total_cost(problem_, seconds, choice);
    return std::isfinite(all) ? all : 0;
  };
  result->sum_default_s = sum(before_s_, preferred_values(problem_));
  result->sum_best_s = sum(best, cheapest_values(problem_, best));
  result->sum_session_s = sum(of_session, cheapest_values(problem_, of_session));
  result->session = records_.session();
  result->trials = trials_ - earlier_;
  result->earlier = earlier_;
  result->left_aside = all_left_aside_;
  result->disturbed = loop_->disturbed();
  result->database_error = records_.error();
  result->busy = loop_->was_busy();
  const LoopTimes& times = loop_->times();
  result->pretrained = searches_->pretrained();
  result->times.build = times.build;
  result->times.run = times.run;
  result->times.waiting = times.waiting;
  result->times.search = searching_s_;
  result->times.model = fitting_s_;
}

}  // namespace tessera::app
