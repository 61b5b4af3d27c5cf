// Divides trials among the tasks of one or several models by what a further trial is likely to
// gain. Pure arithmetic on reported times: no measuring, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/support/rng.h"

namespace tessera::search {

struct ScheduledTask {
  // Tasks of one family are expected to reach similar FLOP/s: see family_of. Empty: alone.
  std::string family;
  double flops = 0;
  std::vector<double> weights;  // per model: how often the model runs it; 0: not part of it
};

// The anchor of a task's name: "conv+add+max" -> "conv".
std::string family_of(const std::string& task_name);

struct SchedulerOptions {
  enum class Objective : std::uint8_t {
    kSum,            // of all models' latencies
    kGeometricMean,  // across models
  };
  Objective objective = Objective::kSum;
  double alpha = 0.2;  // trust in the recent slope, against the optimistic guess
  double beta = 2;     // a task should come this near to the best FLOP/s of its family
  int window = 3;      // rounds over which the slope is taken
  // A task stops after this many trials without a gain of at least min_gain of its time; 0: never.
  std::int64_t stop_after = 0;
  double min_gain = 0.002;
  // Per model: seconds outside the tasks. Empty: 0. Matters to the geometric mean only.
  std::vector<double> fixed_s;
  std::uint64_t seed = 1;  // breaks ties
};

class TaskScheduler {
 public:
  // Every task has as many weights as the first, at least one.
  TaskScheduler(std::vector<ScheduledTask> tasks, SchedulerOptions options);

  // The task that should get the next round, or none when all have stopped. Rounds handed out and
  // not yet reported count as spent, so that several may be in flight. Tasks come first by what is
  // expected of them (set_expectation), and may get several rounds; then every other task gets one
  // round before any gets two, the heaviest first.
  std::optional<std::size_t> next();
  // Ends a round of the task: `trials` more were measured and its best time is now `best_s` (0 or
  // infinite: nothing ran yet). With 0 trials it only states a time known beforehand.
  void report(std::size_t task, double best_s, std::int64_t trials);
  // The best time of the task was found to be longer than reported.
  void revise(std::size_t task, double best_s);
  // The chance, in [0, 1], that the best candidates not yet tried beat the best so far, as a model
  // that knows its spread sees it. A task that promises nothing stops after a quarter of
  // stop_after, one that promises much after twice as many. Below 0: not known.
  void set_promise(std::size_t task, double chance);
  // What a model learned elsewhere promises of the first rounds: the time falls to this share of
  // what was known beforehand. What is left of a promise counts half after each round. Outside (0,
  // 1): nothing.
  void set_expectation(std::size_t task, double share);
  // The task gets no more rounds: its space is exhausted, or the user says so.
  void stop(std::size_t task);

  bool stopped(std::size_t task) const { return states_[task].stopped; }
  std::int64_t trials(std::size_t task) const { return states_[task].trials; }
  double best_seconds(std::size_t task) const { return states_[task].best_s; }

  // Seconds of one model, or the objective over all; infinite while a task has no time.
  double latency(std::size_t model) const;
  double objective() const;
  // The objective that would be gained by `trials` more, shared out among the live tasks, if each
  // doubling of a task's trials gains half of what the last doubling did. Same unit as objective().
  double expected_gain(std::int64_t trials) const;

 private:
  struct Point {
    std::int64_t trials = 0;
    double best_s = 0;
  };
  struct State {
    double best_s = 0;  // 0: none
    std::int64_t trials = 0, trials_at_gain = 0;
    double best_at_gain_s = 0;
    int rounds = 0, in_flight = 0;
    bool stopped = false;
    double promise = -1;
    double expected_share = 1;
    std::vector<Point> points;  // after each round, and what was known beforehand
  };

  double slope_weight(std::size_t task) const;    // d objective / d seconds of the task
  double gain_per_trial(std::size_t task) const;  // positive
  double family_bound(std::size_t task) const;    // seconds; infinite: nothing to compare with
  double best_at(const State& s, std::int64_t trials) const;
  std::int64_t stop_after(const State& s) const;
  std::optional<std::size_t> next_expected() const;
  std::optional<std::size_t> next_unmeasured() const;

  std::vector<ScheduledTask> tasks_;
  SchedulerOptions options_;
  std::vector<State> states_;
  Rng rng_;
};

}  // namespace tessera::search
