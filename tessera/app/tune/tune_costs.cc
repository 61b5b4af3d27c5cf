#include "tessera/app/tune/tune_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tessera::app {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Options that are this much slower than the best one are not timed again.
constexpr double kCloseOption = 1.15;

// An option whose time was not taken in turns with that of another must be so much faster.
constexpr double kClearlyCheaper = 0.95;

// An option that is this much slower than the best one of its choice gets no more trials.
double losing_factor(std::int64_t trials) { return trials < 8 ? 2.5 : trials < 64 ? 1.5 : 1.2; }

}  // namespace

double cost(const std::vector<TaskUse>& uses, const std::vector<double>& seconds) {
  double sum = 0;
  for (const TaskUse& use : uses) {
    const double s = seconds[use.task];
    if (!(s > 0)) return kInfinity;
    sum += s * use.count;
  }
  return sum;
}

std::vector<std::size_t> cheapest_options(const TuneProblem& problem,
                                          const std::vector<double>& seconds) {
  std::vector<std::size_t> out;
  for (const TuneChoice& c : problem.choices) {
    std::size_t best = c.preferred;
    for (std::size_t i = 0; i < c.options.size(); ++i) {
      if (cost(c.options[i].uses, seconds) < cost(c.options[best].uses, seconds)) best = i;
    }
    out.push_back(best);
  }
  return out;
}

std::vector<std::size_t> preferred_options(const TuneProblem& problem) {
  std::vector<std::size_t> out;
  for (const TuneChoice& c : problem.choices) out.push_back(c.preferred);
  return out;
}

double total_cost(const TuneProblem& problem, const std::vector<double>& seconds,
                  const std::vector<std::size_t>& options) {
  double sum = cost(problem.base, seconds);
  for (std::size_t i = 0; i < problem.choices.size(); ++i)
    sum += cost(problem.choices[i].options[options[i]].uses, seconds);
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
  const std::vector<std::size_t> was = cheapest_options(problem, before);
  const std::vector<std::size_t> is = cheapest_options(problem, after);
  for (std::size_t i = 0; i < problem.choices.size(); ++i) {
    const TuneChoice& c = problem.choices[i];
    const double preferred = cost(c.options[c.preferred].uses, before);
    const double kept = cost(c.options[c.preferred].uses, after);
    const double found = cost(c.options[is[i]].uses, after);
    add(std::isfinite(preferred) ? preferred : cost(c.options[was[i]].uses, before),
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
  for (const TuneChoice& c : problem.choices) {
    for (std::size_t o = 0; o < c.options.size(); ++o) add(c.options[o].uses, o == c.preferred);
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
  for (const TuneChoice& c : problem.choices) {
    double cheapest = kInfinity;
    for (const TuneOption& o : c.options) cheapest = std::min(cheapest, cost(o.uses, best));
    for (const TuneOption& o : c.options) {
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (const TaskUse& use : o.uses) least = std::min(least, trials[use.task]);
      const bool lost = least > 0 && cost(o.uses, best) > losing_factor(least) * cheapest;
      for (const TaskUse& use : o.uses) (lost ? losing : needed).insert(use.task);
    }
  }
  std::erase_if(losing, [&](std::size_t t) { return needed.contains(t); });
  return losing;
}

std::set<std::size_t> contending_tasks(const TuneProblem& problem,
                                       const std::vector<double>& best) {
  const std::vector<std::size_t> chosen = cheapest_options(problem, best);
  std::set<std::size_t> out;
  for (const TaskUse& use : problem.base) out.insert(use.task);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const TuneChoice& c = problem.choices[i];
    const double cheapest = cost(c.options[chosen[i]].uses, best);
    for (std::size_t o = 0; o < c.options.size(); ++o) {
      const bool close = cost(c.options[o].uses, best) <= kCloseOption * cheapest;
      if (!close && o != c.preferred) continue;
      for (const TaskUse& use : c.options[o].uses) out.insert(use.task);
    }
  }
  return out;
}

}  // namespace tessera::app
