// What whole models that were measured say about kernels that were timed alone.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/tune/plan_costs.h"

namespace tessera::app {

// A kernel between others takes longer or shorter than alone by a factor of its own, and kernels
// that are exchanged by a factor that all share. Both are near 1 before anything is measured, and
// follow by linear regression with these beliefs.
class KernelCorrections {
 public:
  // `costs` outlives it and knows the kernels of the rules' plan.
  explicit KernelCorrections(const PlanCosts& costs) : costs_(costs) {}

  // A plan took `share` of the time of the rules' plan. `expected`: what was expected before
  // anything was measured; none: what the sums say.
  void observe(const PlanTasks& rules, const PlanTasks& plan, double share,
               std::optional<double> expected = {});

  struct Belief {
    double share = 0;      // of the time of the rules' plan; infinite: a kernel has no time
    double deviation = 0;  // of that share, by what is not known about its kernels
  };
  Belief believe(const PlanTasks& rules, const PlanTasks& plan,
                 std::optional<double> expected = {}) const;

 private:
  // What each kernel adds to the time of the rules' plan, as a share of it.
  using Effects = std::vector<std::pair<std::string, double>>;  // by key, in order
  // Empty sum: a kernel has no time.
  struct Change {
    bool known = true;
    double sum = 0;
    Effects effects;
  };
  Change change(const PlanTasks& rules, const PlanTasks& plan) const;
  static double covariance(const Change& a, const Change& b);
  std::vector<double> solve(std::vector<double> right) const;  // with the lower factor

  const PlanCosts& costs_;
  std::vector<Change> seen_;
  std::vector<double> surprises_;            // of those: share less what was expected
  std::vector<std::vector<double>> factor_;  // of the covariances, lower
  std::vector<double> solved_;               // surprises_, solved with the factor
};

}  // namespace tessera::app
