#include "toy_space.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"

namespace tessera::search::testing {
namespace {

constexpr std::size_t kDecisions = 6;

class ToySketch final : public space::Sketch {
 public:
  ToySketch(std::string name, std::int32_t values) {
    name_ = std::move(name);
    for (std::size_t d = 0; d < kDecisions; ++d) {
      decide::Point decision;
      decision.name = fmt::format("d{}", d);
      for (std::int32_t v = 0; v < values; ++v) decision.values.push_back({std::int64_t{1} << v});
      points_.push_back(std::move(decision));
    }
  }
  void walk(decide::Asker& asker) const override {
    const auto values = static_cast<std::int32_t>(points_[0].values.size());
    const std::int32_t most = 2 * (values - 1) - values / 3;
    std::int32_t first = 0;
    for (std::size_t d = 0; d < kDecisions; ++d) {
      const std::int32_t value = asker.ask(
          d, [&](std::int32_t v) { return d == 1 && first + v > most ? "too large" : nullptr; });
      if (d == 0) first = value;
    }
  }
  Result<schedule::Schedule> write(decide::Choice) const override { return schedule::Schedule{}; }
};

// Where decision d is best: in the middle, not at the preferred value 0.
double optimal_value(std::size_t d, double values) {
  static constexpr double kWhere[kDecisions] = {0.5, 0.65, 0.3, 0.5, 0.8, 0.4};
  return std::round(kWhere[d] * (values - 1));
}

}  // namespace

space::Space make_toy_space(std::int32_t values) {
  std::vector<std::unique_ptr<space::Sketch>> sketches;
  sketches.push_back(std::make_unique<ToySketch>("first", values));
  sketches.push_back(std::make_unique<ToySketch>("second", values));
  const auto spec = te::parse_op_spec("matmul:M=4,N=4,K=4");
  EXPECT_TRUE(spec.ok());
  const auto dag = te::make_dag(*spec);
  EXPECT_TRUE(dag.ok());
  return space::Space(*dag, target::host(), std::move(sketches));
}

double toy_seconds(const space::Space& space, const decide::Candidate& c) {
  const auto values = static_cast<double>(space.points(c)[0].values.size());
  double seconds = 1;
  for (std::size_t d = 0; d < c.choice.size(); ++d) {
    const double distance = std::abs(c.choice[d] - optimal_value(d, values));
    seconds *= 1 + 0.25 * distance * (d < 3 ? 1.0 : 0.3);
  }
  // Tiles that together overflow a cache, and a vector that does not fit its loop.
  if (c.choice[0] + c.choice[1] + c.choice[2] > values * 1.7) seconds *= 1.8;
  if (c.choice[3] > c.choice[0] + 2) seconds *= 1.5;
  if (c.sketch != 0) seconds *= 1.7;
  // Some fail for no reason that a model could see.
  if (seconds > 1 && decide::hash_of(c) % 40 == 0) return 0;
  return seconds;
}

std::size_t ToyRun::first_below(double seconds) const {
  for (std::size_t i = 0; i < best_after.size(); ++i) {
    if (best_after[i] <= seconds) return i + 1;
  }
  return 0;
}

ToyRun run_toy(const space::Space& space, const ToyOptions& options) {
  const auto entry = find_policy(options.policy);
  EXPECT_TRUE(entry.ok()) << options.policy;
  std::unique_ptr<Learner> learner;
  if (!options.model.empty()) {
    LearnerOptions learning;
    learning.model = options.model;
    learning.objective = options.objective;
    learning.features = "decisions";
    learning.background = false;
    learning.fit_limit_s = 0;
    learning.seed = options.options.seed;
    auto made = Learner::make(learning);
    EXPECT_TRUE(made.ok()) << made.error().message;
    learner = std::move(*made);
  }
  Scorer& scorer = learner ? learner->add_task(space) : no_scorer();
  const std::unique_ptr<Policy> policy = (*entry)->make(space, scorer, options.options);
  ToyRun run;
  double best = std::numeric_limits<double>::infinity();
  while (run.proposed.size() < options.trials) {
    const std::size_t wanted = std::min(options.batch, options.trials - run.proposed.size());
    const std::vector<decide::Candidate> batch = policy->propose(wanted);
    std::vector<Observation> observations;
    for (const decide::Candidate& c : batch) {
      const double seconds = toy_seconds(space, c);
      if (seconds > 0) best = std::min(best, seconds);
      observations.push_back({c, seconds, false});
      run.proposed.push_back(c);
      run.best_after.push_back(best);
    }
    policy->observe(observations);
    if (learner) {
      learner->observe(scorer, observations);
      learner->update();
    }
    if (batch.size() < wanted) break;
  }
  return run;
}

}  // namespace tessera::search::testing
