// What the values of the points of a tuning cost, from the times of their tasks.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "tessera/app/tune/tune_problem.h"
#include "tessera/scheduling/decide/sketch.h"

namespace tessera::app {

// Of a value by `seconds` (one per task, 0: unknown); infinite when one is unknown.
double cost(const std::vector<TaskUse>& uses, const std::vector<double>& seconds);

// The cheapest value of each point, and those that are taken without tuning.
std::vector<std::int32_t> cheapest_values(const TuneProblem& problem,
                                          const std::vector<double>& seconds);
std::vector<std::int32_t> preferred_values(const TuneProblem& problem);

// Of all subjects with these values.
double total_cost(const TuneProblem& problem, const std::vector<double>& seconds,
                  decide::Choice choice);

// Of all subjects, as far as times are known: `before` with the preferred values (of a point
// whose preferred one has no time, the cheapest that has), `after` with values that are clearly
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

// Tasks that only values need which are far behind the best one of their point: the more trials
// a value had, the less it can still catch up. `trials` per task.
std::set<std::size_t> hopeless_tasks(const TuneProblem& problem, const std::vector<double>& best,
                                     const std::vector<std::int64_t>& trials);

// Tasks of all values that could still be the best.
std::set<std::size_t> contending_tasks(const TuneProblem& problem, const std::vector<double>& best);

}  // namespace tessera::app
