// What the options of a tuning cost, from the times of their tasks.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "tessera/app/tune/tune_problem.h"

namespace tessera::app {

// Of an option by `seconds` (one per task, 0: unknown); infinite when one is unknown.
double cost(const std::vector<TaskUse>& uses, const std::vector<double>& seconds);

// The cheapest option of each choice, and those that are taken without tuning.
std::vector<std::size_t> cheapest_options(const TuneProblem& problem,
                                          const std::vector<double>& seconds);
std::vector<std::size_t> preferred_options(const TuneProblem& problem);

// Of all subjects with these options.
double total_cost(const TuneProblem& problem, const std::vector<double>& seconds,
                  const std::vector<std::size_t>& options);

// Of all subjects, as far as times are known: `before` with the preferred options (of a choice
// whose preferred one has no time, the cheapest that has), `after` with options that are clearly
// cheaper: they are not timed in turns, and the cheapest of several may owe it to noise. What has
// no time in one of them counts in neither.
struct KnownSums {
  double before_s = 0, after_s = 0;  // 0: nothing is known
};
KnownSums known_sums(const TuneProblem& problem, const std::vector<double>& before,
                     const std::vector<double>& after);

// All tasks: those of the untuned models first, then alternatives, each by the work that its uses
// do together, most first.
std::vector<std::size_t> heaviest_first(const TuneProblem& problem);

// Tasks that only options need which are far behind the best one of their choice: the more trials
// an option had, the less it can still catch up. `trials` per task.
std::set<std::size_t> hopeless_tasks(const TuneProblem& problem, const std::vector<double>& best,
                                     const std::vector<std::int64_t>& trials);

// Tasks of all options that could still be the best.
std::set<std::size_t> contending_tasks(const TuneProblem& problem, const std::vector<double>& best);

}  // namespace tessera::app
