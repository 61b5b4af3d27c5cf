#include "tessera/search/task_scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/support/check.h"

namespace tessera::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Rounds after which a task that never ran stops, and by which a task may lag its family before
// the family is no longer believed.
constexpr int kRoundsWithoutTime = 3;
constexpr int kRoundsAheadOfFamily = 5;

// Of its time: what a task must be expected to save to come before its turn.
constexpr double kLeastExpected = 0.01;

// By how much a promise of 0 or 1 stretches what a task is given.
constexpr double kNoPromise = 0.25, kFullPromise = 2;

double stretch(double promise) {
  return promise < 0 ? 1 : kNoPromise + (kFullPromise - kNoPromise) * std::min(1.0, promise);
}

double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

std::string family_of(const std::string& task_name) {
  return task_name.substr(0, task_name.find('+'));
}

TaskScheduler::TaskScheduler(std::vector<ScheduledTask> tasks, SchedulerOptions options)
    : tasks_(std::move(tasks)),
      options_(std::move(options)),
      states_(tasks_.size()),
      rng_(options_.seed) {
  for (const ScheduledTask& t : tasks_) {
    TESSERA_CHECK(!t.weights.empty() && t.weights.size() == tasks_.front().weights.size(),
                  "scheduler: a task has {} weights", t.weights.size());
  }
  if (!tasks_.empty()) options_.fixed_s.resize(tasks_.front().weights.size(), 0);
}

std::optional<std::size_t> TaskScheduler::next_expected() const {
  std::optional<std::size_t> best;
  double most = 0;
  bool at_the_start = false;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const State& s = states_[i];
    if (s.stopped) continue;
    at_the_start = at_the_start || s.rounds + s.in_flight == 0;
    if (s.expected_share >= 1 || s.points.empty()) continue;
    const double left = (s.best_s - s.expected_share * s.points.front().best_s) *
                        std::exp2(-(s.rounds + s.in_flight));
    const double gain = slope_weight(i) * left;
    if (left > kLeastExpected * s.best_s && gain > most) best = i, most = gain;
  }
  return at_the_start ? best : std::nullopt;
}

std::optional<std::size_t> TaskScheduler::next_unmeasured() const {
  std::optional<std::size_t> best;
  double most = -1;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const State& s = states_[i];
    if (s.stopped || s.rounds + s.in_flight > 0) continue;
    const double work =
        (s.best_s > 0 ? s.best_s * 1e12 : tasks_[i].flops) * total(tasks_[i].weights);
    if (work > most) best = i, most = work;
  }
  return best;
}

std::optional<std::size_t> TaskScheduler::next() {
  std::optional<std::size_t> pick = next_expected();
  if (!pick) pick = next_unmeasured();
  if (!pick) {
    double most = -1;
    int equals = 0;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (states_[i].stopped) continue;
      const double gain = gain_per_trial(i);
      if (gain > most) {
        pick = i, most = gain, equals = 1;
      } else if (gain == most && rng_.below(++equals) == 0) {
        pick = i;
      }
    }
  }
  if (pick) ++states_[*pick].in_flight;
  return pick;
}

void TaskScheduler::report(std::size_t task, double best_s, std::int64_t trials) {
  State& s = states_.at(task);
  if (trials > 0) {
    ++s.rounds;
    s.in_flight = std::max(0, s.in_flight - 1);
    s.trials += trials;
  }
  if (best_s > 0 && best_s < kInfinity && (s.best_s == 0 || best_s < s.best_s)) s.best_s = best_s;
  if (s.best_at_gain_s == 0 || s.best_s < s.best_at_gain_s * (1 - options_.min_gain)) {
    s.best_at_gain_s = s.best_s;
    s.trials_at_gain = s.trials;
  }
  if (s.best_s > 0) s.points.push_back({s.trials, s.best_s});
  if (s.best_s == 0 && s.rounds >= kRoundsWithoutTime) s.stopped = true;
  if (options_.stop_after > 0 && s.trials - s.trials_at_gain >= stop_after(s)) s.stopped = true;
}

void TaskScheduler::revise(std::size_t task, double best_s) {
  State& s = states_.at(task);
  if (s.best_s == 0 || best_s <= s.best_s) return;
  s.best_s = best_s;
  s.best_at_gain_s = std::max(s.best_at_gain_s, best_s);
  for (Point& p : s.points) p.best_s = std::max(p.best_s, best_s);
}

std::int64_t TaskScheduler::stop_after(const State& s) const {
  return static_cast<std::int64_t>(stretch(s.promise) * static_cast<double>(options_.stop_after));
}

void TaskScheduler::set_promise(std::size_t task, double chance) {
  states_.at(task).promise = chance;
}

void TaskScheduler::set_expectation(std::size_t task, double share) {
  states_.at(task).expected_share = share > 0 && share < 1 ? share : 1;
}

void TaskScheduler::stop(std::size_t task) {
  states_.at(task).stopped = true;
  states_.at(task).in_flight = 0;
}

double TaskScheduler::latency(std::size_t model) const {
  double sum = options_.fixed_s.empty() ? 0 : options_.fixed_s.at(model);
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const double weight = tasks_[i].weights[model];
    if (weight == 0) continue;
    if (states_[i].best_s == 0) return kInfinity;
    sum += weight * states_[i].best_s;
  }
  return sum;
}

double TaskScheduler::objective() const {
  const std::size_t models = options_.fixed_s.size();
  double sum = 0, logs = 0;
  for (std::size_t m = 0; m < models; ++m) {
    const double seconds = latency(m);
    sum += seconds;
    logs += std::log(std::max(seconds, 1e-12));
  }
  if (options_.objective == SchedulerOptions::Objective::kSum || models == 0) return sum;
  return std::exp(logs / static_cast<double>(models));
}

double TaskScheduler::slope_weight(std::size_t task) const {
  const std::vector<double>& weights = tasks_[task].weights;
  if (options_.objective == SchedulerOptions::Objective::kSum) return total(weights);
  double sum = 0;
  for (std::size_t m = 0; m < weights.size(); ++m) {
    const double seconds = latency(m);
    // A model whose tasks have not all run yet is as important as any: its share is unknown.
    if (weights[m] > 0) sum += weights[m] / (seconds < kInfinity ? std::max(seconds, 1e-12) : 1);
  }
  const double mean = objective();
  return sum / static_cast<double>(weights.size()) * (mean < kInfinity ? mean : 1);
}

double TaskScheduler::family_bound(std::size_t task) const {
  const State& self = states_[task];
  const std::string& family = tasks_[task].family;
  if (family.empty() || tasks_[task].flops <= 0 || self.best_s == 0) return kInfinity;
  double best_rate = 0, rounds = 0;
  int others = 0;
  for (std::size_t j = 0; j < tasks_.size(); ++j) {
    if (j == task || tasks_[j].family != family || states_[j].best_s == 0) continue;
    best_rate = std::max(best_rate, tasks_[j].flops / states_[j].best_s);
    rounds += states_[j].rounds;
    ++others;
  }
  if (others == 0 || best_rate == 0) return kInfinity;
  const double bound = options_.beta * tasks_[task].flops / best_rate;
  const bool tried_enough = self.rounds > rounds / others + kRoundsAheadOfFamily;
  if (bound < self.best_s && tried_enough) return kInfinity;
  return bound;
}

double TaskScheduler::gain_per_trial(std::size_t task) const {
  const State& s = states_[task];
  // Nothing ran yet: worth trying before everything else.
  if (s.best_s == 0) return std::numeric_limits<double>::max();
  const double per_round =
      s.rounds > 0 ? static_cast<double>(s.trials) / static_cast<double>(s.rounds) : 1;
  const double spent = static_cast<double>(s.trials) + per_round * s.in_flight;
  double recent = 0;
  const auto window = static_cast<std::size_t>(options_.window);
  if (s.points.size() > window) {
    const Point& then = s.points[s.points.size() - 1 - window];
    const auto trials = static_cast<double>(s.trials - then.trials) + per_round * s.in_flight;
    if (trials > 0) recent = (then.best_s - s.best_s) / trials;
  }
  // A round is worth at most 1/rounds of the time, or the way to the family's rate.
  const double rounds = std::max(1.0, spent / per_round);
  const double hoped = s.best_s - std::min(s.best_s - s.best_s / rounds, family_bound(task));
  const double gain =
      options_.alpha * recent + (1 - options_.alpha) * stretch(s.promise) * hoped / per_round;
  return slope_weight(task) * gain;
}

double TaskScheduler::best_at(const State& s, std::int64_t trials) const {
  double best = s.points.front().best_s;
  for (const Point& p : s.points) {
    if (p.trials > trials) break;
    best = p.best_s;
  }
  return best;
}

double TaskScheduler::expected_gain(std::int64_t trials) const {
  std::int64_t live = 0;
  for (const State& s : states_) live += s.stopped ? 0 : 1;
  if (live == 0 || trials <= 0) return 0;
  double gain = 0;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const State& s = states_[i];
    if (s.stopped || s.points.size() < 2 || s.trials == 0) continue;
    const double last_doubling = best_at(s, s.trials / 2) - s.best_s;
    const double doublings =
        std::log2(1 + static_cast<double>(trials) / static_cast<double>(live * s.trials));
    // Halved at each doubling: a geometric series.
    gain += slope_weight(i) * last_doubling * (1 - std::pow(0.5, doublings));
  }
  return gain;
}

}  // namespace tessera::search
