// The search over the decisions of a model, by measured times of kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/app/tune/plan_costs.h"

namespace tessera::app {

// The plans next to the rules' own: one value of one point each, then pairs of layouts that stand
// near each other, and all layouts at once. After it, costs.tasks() are what has to be measured
// before plans can be judged, the most promising first. Ends early when `stop` says so.
Result<void> visit_neighbours(PlanCosts& costs, const std::function<bool()>& stop);

struct JudgedPlan {
  plan::Decisions decisions;  // those that differ from the rules'
  double seconds = 0;         // sum of its kernels
  std::string found_by;       // "single", "cut", "annealing"
};

struct PlanSearchOptions {
  std::uint64_t seed = 1;
  std::size_t keep = 4;        // plans of the annealing
  std::int64_t steps = 3000;   // of the annealing
  std::function<bool()> stop;  // asked before every plan that is judged
};

// What judging finds better than the rules' plan, best first; of plans that run the same kernels
// one. Three searches: the values that gain alone, taken as long as they gain together; layouts by
// a minimum cut, exact for the costs of nodes and pairs; annealing from the best of these.
std::vector<JudgedPlan> search_plans(PlanCosts& costs, const PlanSearchOptions& options);

}  // namespace tessera::app
