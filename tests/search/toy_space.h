// A space whose times are known in closed form, and a search over it without measuring.
#pragma once

#include <string>
#include <vector>

#include "tessera/search/model_scorer.h"
#include "tessera/search/policy.h"

namespace tessera::search::testing {

// Two sketches of six decisions with `values` values each (the second is slower everywhere). About
// a tenth of the points is illegal.
space::Space make_toy_space(std::int32_t values);

// At least 1; exactly 1 at the optimum, which lies off the preferred values. 0: fails to run.
double toy_seconds(const space::Space& space, const decide::Candidate& candidate);

struct ToyRun {
  std::vector<decide::Candidate> proposed;
  std::vector<double> best_after;  // each trial; infinite before the first success

  // The first trial (from 1) whose best is at most `seconds`; 0: none.
  std::size_t first_below(double seconds) const;
  double best() const { return best_after.back(); }
};

struct ToyOptions {
  std::string policy;
  std::size_t trials = 200, batch = 16;
  PolicyOptions options;
  // Names of LearnerOptions; empty model: none.
  std::string model, objective = "rank";
};

ToyRun run_toy(const space::Space& space, const ToyOptions& options);

}  // namespace tessera::search::testing
