#include "tessera/app/tune/tune_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tessera::app {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();
// Values that are this much slower than the best one are not timed again.
constexpr double kCloseValue = 1.15;

// A value whose time was not taken in turns with that of another must be so much faster.
constexpr double kClearlyCheaper = 0.95;

// A value that is this much slower than the best one of its point gets no more trials.
double losing_factor(std::int64_t trials) { return trials < 8 ? 2.5 : trials < 64 ? 1.5 : 1.2; }

}  // namespace

double cost(const std::vector<TaskUse>& uses, const std::vector<double>& seconds) {
  double sum = 0;
  for (const TaskUse& use : uses) {
    const double s = seconds[use.task];
    if (!(s > 0)) return kImpossible;
    sum += s * use.count;
  }
  return sum;
}

std::vector<std::int32_t> cheapest_values(const TuneProblem& problem,
                                          const std::vector<double>& seconds) {
  std::vector<std::int32_t> out;
  for (const TunePoint& p : problem.points) {
    std::int32_t best = p.point.preferred;
    for (std::int32_t v = 0; v < p.values(); ++v) {
      if (cost(p.of(v), seconds) < cost(p.of(best), seconds)) best = v;
    }
    out.push_back(best);
  }
  return out;
}

std::vector<std::int32_t> preferred_values(const TuneProblem& problem) {
  std::vector<std::int32_t> out;
  for (const TunePoint& p : problem.points) out.push_back(p.point.preferred);
  return out;
}

double total_cost(const TuneProblem& problem, const std::vector<double>& seconds,
                  decide::Choice choice) {
  double sum = cost(problem.base, seconds);
  for (std::size_t i = 0; i < problem.points.size(); ++i)
    sum += cost(problem.points[i].of(choice[i]), seconds);
  return sum;
}

KnownSums known_sums(const TuneProblem& problem, const std::vector<double>& before,
                     const std::vector<double>& after) {
  KnownSums out;
  const auto add = [&](double before_s, double after_s) {
    if (!std::isfinite(before_s) || !std::isfinite(after_s)) return;
    out.before_s += before_s;
    out.after_s += after_s;
  };
  for (const TaskUse& use : problem.base) add(cost({use}, before), cost({use}, after));
  const std::vector<std::int32_t> was = cheapest_values(problem, before);
  const std::vector<std::int32_t> is = cheapest_values(problem, after);
  for (std::size_t i = 0; i < problem.points.size(); ++i) {
    const TunePoint& p = problem.points[i];
    const double preferred = cost(p.preferred(), before);
    const double kept = cost(p.preferred(), after);
    const double found = cost(p.of(is[i]), after);
    add(std::isfinite(preferred) ? preferred : cost(p.of(was[i]), before),
        found < kClearlyCheaper * kept ? found : kept);
  }
  return out;
}

std::vector<std::size_t> heaviest_first(const TuneProblem& problem) {
  std::vector<double> work(problem.tasks.size(), 0);
  std::vector<bool> untuned(problem.tasks.size(), false);
  const auto add = [&](const std::vector<TaskUse>& uses, bool is_untuned) {
    for (const TaskUse& use : uses) {
      const task::Task& task = problem.tasks[use.task].task;
      work[use.task] += use.count * std::max(task.flops, task.bytes);
      untuned[use.task] = untuned[use.task] || is_untuned;
    }
  };
  add(problem.base, true);
  add(problem.others, false);
  for (const TunePoint& p : problem.points) {
    for (std::int32_t v = 0; v < p.values(); ++v) add(p.of(v), v == p.point.preferred);
  }
  std::vector<std::size_t> out(problem.tasks.size());
  std::iota(out.begin(), out.end(), 0);
  std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) {
    return untuned[a] != untuned[b] ? untuned[a] : work[a] > work[b];
  });
  return out;
}

std::set<std::size_t> hopeless_tasks(const TuneProblem& problem, const std::vector<double>& best,
                                     const std::vector<std::int64_t>& trials) {
  std::set<std::size_t> needed;  // by an option that may still win, or by all
  std::set<std::size_t> losing;
  for (const TaskUse& use : problem.base) needed.insert(use.task);
  for (const TunePoint& p : problem.points) {
    double cheapest = kImpossible;
    for (const std::vector<TaskUse>& uses : p.uses) cheapest = std::min(cheapest, cost(uses, best));
    for (const std::vector<TaskUse>& uses : p.uses) {
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (const TaskUse& use : uses) least = std::min(least, trials[use.task]);
      const bool lost = least > 0 && cost(uses, best) > losing_factor(least) * cheapest;
      for (const TaskUse& use : uses) (lost ? losing : needed).insert(use.task);
    }
  }
  std::erase_if(losing, [&](std::size_t t) { return needed.contains(t); });
  return losing;
}

std::set<std::size_t> contending_tasks(const TuneProblem& problem,
                                       const std::vector<double>& best) {
  const std::vector<std::int32_t> chosen = cheapest_values(problem, best);
  std::set<std::size_t> out;
  for (const TaskUse& use : problem.base) out.insert(use.task);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const TunePoint& p = problem.points[i];
    const double cheapest = cost(p.of(chosen[i]), best);
    for (std::int32_t v = 0; v < p.values(); ++v) {
      const bool close = cost(p.of(v), best) <= kCloseValue * cheapest;
      if (!close && v != p.point.preferred) continue;
      for (const TaskUse& use : p.of(v)) out.insert(use.task);
    }
  }
  return out;
}

}  // namespace tessera::app
