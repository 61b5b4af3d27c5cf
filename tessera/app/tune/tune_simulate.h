// A benchmark of search policies without a machine: the measured candidates of a database stand
// for it, and nothing else can be proposed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/app/tune/tune_problem.h"
#include "tessera/machine/target/target.h"
#include "tessera/search/model_scorer.h"
#include "tessera/search/policy.h"

namespace tessera::app {

struct SimulateOptions {
  std::string database;
  target::Target target;  // the machine
  int threads = 1;
  std::vector<std::string> sources;
  std::vector<std::string> policies;    // as policy_variant() reads them
  std::vector<std::string> objectives;  // of policies that use a model
  std::int64_t trials = 256;            // per task
  std::size_t batch = 16;
  std::uint64_t seed = 1;
  int seeds = 3;
  std::size_t min_records = 32;  // tasks with fewer timed candidates are left out
  std::size_t min_plans = 4;     // and models with fewer plans
  search::PolicyOptions policy_options;
  search::LearnerOptions learner;
};

struct Curve {
  std::string task, name;  // key and name
  std::string policy;      // "random", "evolutionary rank"
  std::uint64_t seed = 0;
  std::vector<double> best_s;  // after each trial; 0: nothing ran yet
};

struct Simulation {
  struct Task {
    std::string key, name;
    std::size_t candidates = 0;  // recorded, failures included
    double best_s = 0;           // of all that was recorded
  };
  std::vector<Task> tasks;
  std::vector<std::string> policies;  // labels, in the order asked for
  std::vector<Curve> curves;

  // How near a policy came after `trials`, over all tasks and seeds: geometric mean of best time
  // recorded / best time found, at most 1.
  double score(const std::string& policy, std::int64_t trials) const;
  // Trials after which the score is at least `wanted`; 0: never.
  std::int64_t trials_to(const std::string& policy, double wanted) const;
};

// kUnavailable: no such database; kInvalidArgument: it has too few records of these tasks.
Result<Simulation> simulate(const TuneProblem& problem, const SimulateOptions& wanted);

// The same of the plans of a model, whose kernels' recorded times guide policies that use a model.
// Times are shares of the rules' plan's, which take as long as when it was timed first.
Result<Simulation> simulate_plans(const TuneSubject& model, const SimulateOptions& wanted);

}  // namespace tessera::app
