#include "tessera/search/task_scheduler.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace tessera::search {
namespace {

using Objective = SchedulerOptions::Objective;

// Seconds after so many trials: a floor, and a part above it that falls with a power of the trials.
struct Curve {
  double floor_s, above_s, power;
  double at(std::int64_t trials) const {
    return floor_s + above_s * std::pow(1 + static_cast<double>(trials) / 16, -power);
  }
};

struct Case {
  std::vector<Curve> curves;
  std::vector<ScheduledTask> tasks;
};

Case make_case() {
  Case c;
  // One heavy task with much to gain, some middling, many that are finished at once.
  c.curves = {{2e-3, 8e-3, 0.7}, {1e-3, 2e-3, 0.5}, {1e-3, 1e-3, 1.0}};
  for (int i = 0; i < 7; ++i) c.curves.push_back({1e-5 * (i + 1), 1e-6, 1});
  for (std::size_t i = 0; i < c.curves.size(); ++i) {
    c.tasks.push_back(
        {i % 2 == 0 ? "conv" : "dense", 1e9 * c.curves[i].floor_s, {i == 1 ? 4.0 : 1.0}});
  }
  return c;
}

double total(const Case& c, const std::vector<std::int64_t>& trials) {
  double sum = 0;
  for (std::size_t i = 0; i < c.curves.size(); ++i) {
    sum += c.tasks[i].weights[0] * c.curves[i].at(trials[i]);
  }
  return sum;
}

TEST(TaskScheduler, BeatsRoundRobinAtEqualTrials) {
  const Case c = make_case();
  for (const int rounds : {20, 40, 100}) {
    TaskScheduler scheduler(c.tasks, {});
    std::vector<std::int64_t> spent(c.tasks.size(), 0), turns(c.tasks.size(), 0);
    for (int r = 0; r < rounds; ++r) {
      const auto task = scheduler.next();
      ASSERT_TRUE(task.has_value());
      spent[*task] += 16;
      scheduler.report(*task, c.curves[*task].at(spent[*task]), 16);
      turns[static_cast<std::size_t>(r) % turns.size()] += 16;
    }
    const double ours = total(c, spent), even = total(c, turns);
    // Of the time above what is reachable at all.
    const double floor = total(c, std::vector<std::int64_t>(spent.size(), 1'000'000'000'000));
    EXPECT_LT(ours - floor, 0.85 * (even - floor)) << rounds;
    EXPECT_NEAR(scheduler.objective(), ours, 1e-12);
  }
}

TEST(TaskScheduler, EveryTaskGetsARoundBeforeAnyGetsTwoHeaviestFirst) {
  TaskScheduler scheduler({{"a", 1e6, {1}}, {"a", 5e6, {1}}, {"b", 2e6, {10}}}, {});
  EXPECT_EQ(scheduler.next(), 2u);
  EXPECT_EQ(scheduler.next(), 1u);
  EXPECT_EQ(scheduler.next(), 0u);
  for (std::size_t i = 0; i < 3; ++i) scheduler.report(i, 1, 8);
  EXPECT_EQ(scheduler.next(), 2u);
}

TEST(TaskScheduler, FirstRoundsGoWhereAModelExpectsMost) {
  TaskScheduler scheduler({{"a", 1, {1}}, {"b", 1, {1}}, {"c", 1, {3}}, {"d", 1, {1}}}, {});
  for (std::size_t i = 0; i < 4; ++i) scheduler.report(i, i == 0 ? 8 : 1, 0);
  // 0.4 s to save, 0.5 s (of weight 1), 0.6 s (of weight 3), nothing worth a round.
  scheduler.set_expectation(0, 0.95);
  scheduler.set_expectation(1, 0.5);
  scheduler.set_expectation(2, 0.8);
  scheduler.set_expectation(3, 0.995);
  EXPECT_EQ(scheduler.next(), 2u);
  EXPECT_EQ(scheduler.next(), 1u);
  EXPECT_EQ(scheduler.next(), 0u);
  EXPECT_EQ(scheduler.next(), 2u) << "half of it is left";
  // The promise was kept: nothing is left of it.
  scheduler.report(2, 0.8, 8);
  scheduler.report(2, 0.8, 8);
  EXPECT_EQ(scheduler.next(), 1u);
  // It is no longer believed.
  scheduler.set_expectation(1, 1);
  EXPECT_EQ(scheduler.next(), 0u);
  scheduler.set_expectation(0, 0);
  EXPECT_EQ(scheduler.next(), 3u) << "every task gets a round";
  // After that what trials showed decides.
  TaskScheduler same = scheduler;
  for (std::size_t i = 0; i < 4; ++i) same.set_expectation(i, 0.01);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(scheduler.next(), same.next());
}

TEST(TaskScheduler, RoundsInFlightCountAsSpent) {
  TaskScheduler scheduler({{"a", 1, {1}}, {"b", 1, {1.2}}}, {});
  for (std::size_t i = 0; i < 2; ++i) {
    scheduler.next();
    scheduler.report(i, 1, 8);
  }
  int second = 0;
  for (int i = 0; i < 10; ++i) second += *scheduler.next() == 1 ? 1 : 0;
  EXPECT_GE(second, 4);
  EXPECT_LE(second, 7);
}

TEST(TaskScheduler, TasksWithoutGainStopAndTheRestGoesOn) {
  SchedulerOptions options;
  options.stop_after = 32;
  TaskScheduler scheduler({{"a", 1, {1}}, {"b", 1, {1}}}, options);
  std::vector<std::int64_t> trials(2, 0);
  double improving = 1;
  for (int i = 0; i < 40 && !scheduler.stopped(0); ++i) {
    const std::size_t task = *scheduler.next();
    trials[task] += 16;
    if (task == 1) improving *= 0.98;
    scheduler.report(task, task == 0 ? 1.0 : improving, 16);
  }
  EXPECT_TRUE(scheduler.stopped(0));
  EXPECT_FALSE(scheduler.stopped(1));
  EXPECT_EQ(trials[0], 48) << "the first round set its time, two gained nothing";
  EXPECT_EQ(scheduler.next(), 1u);
  scheduler.stop(1);
  EXPECT_EQ(scheduler.next(), std::nullopt);
  EXPECT_EQ(scheduler.expected_gain(100), 0);
}

TEST(TaskScheduler, ATimeThatWasTooShortIsRevised) {
  SchedulerOptions options;
  options.stop_after = 64;
  TaskScheduler scheduler({{"", 1, {1}}}, options);
  scheduler.report(0, 1.0, 16);
  scheduler.report(0, 0.5, 16);
  scheduler.revise(0, 0.4);
  EXPECT_EQ(scheduler.best_seconds(0), 0.5) << "only ever longer";
  scheduler.revise(0, 0.9);
  EXPECT_EQ(scheduler.best_seconds(0), 0.9);
  EXPECT_EQ(scheduler.latency(0), 0.9);
  scheduler.report(0, 0.8, 16);
  EXPECT_EQ(scheduler.best_seconds(0), 0.8);
  scheduler.report(0, 0.8, 48);
  EXPECT_FALSE(scheduler.stopped(0)) << "0.8 was a gain";
  scheduler.report(0, 0.8, 16);
  EXPECT_TRUE(scheduler.stopped(0));
}

TEST(TaskScheduler, ATaskThatNeverRunsIsGivenUp) {
  TaskScheduler scheduler({{"a", 1, {1}}}, {});
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(scheduler.next(), 0u);
    scheduler.report(0, 0, 4);
  }
  EXPECT_EQ(scheduler.next(), std::nullopt);
  EXPECT_TRUE(std::isinf(scheduler.objective()));
}

TEST(TaskScheduler, ATaskFarBehindItsFamilyComesFirst) {
  // Equal times and trials, but the second does a tenth of the work of its family in it.
  const auto first_after_warm_up = [](const std::string& family) {
    TaskScheduler scheduler({{"conv", 1e9, {1.01}}, {family, 1e8, {1}}}, {});
    for (int round = 0; round < 8; ++round) {
      for (std::size_t i = 0; i < 2; ++i) scheduler.report(i, 1, 16);
    }
    return *scheduler.next();
  };
  EXPECT_EQ(first_after_warm_up("conv"), 1u);
  EXPECT_EQ(first_after_warm_up("softmax"), 0u);
  EXPECT_EQ(family_of("conv+add+max"), "conv");
  EXPECT_EQ(family_of("softmax"), "softmax");
}

TEST(TaskScheduler, GeometricMeanCaresForSmallModels) {
  // Model 0 takes a second, model 1 a millisecond; both could gain the same share.
  const auto rounds_of_small = [](Objective objective) {
    SchedulerOptions options;
    options.objective = objective;
    TaskScheduler scheduler({{"a", 1, {1, 0}}, {"b", 1, {0, 1}}}, options);
    for (std::size_t i = 0; i < 2; ++i) scheduler.report(i, i == 0 ? 1 : 1e-3, 0);
    int small = 0;
    for (int r = 0; r < 40; ++r) {
      const std::size_t task = *scheduler.next();
      small += task == 1 ? 1 : 0;
      scheduler.report(task, task == 0 ? 1 : 1e-3, 16);
    }
    return small;
  };
  EXPECT_LE(rounds_of_small(Objective::kSum), 4);
  EXPECT_NEAR(rounds_of_small(Objective::kGeometricMean), 20, 2);
}

TEST(TaskScheduler, ExpectedGainIsNearWhatComes) {
  const Curve curve{1e-3, 4e-3, 0.8};
  TaskScheduler scheduler({{"a", 1, {2}}}, {});
  EXPECT_EQ(scheduler.expected_gain(100), 0) << "nothing is known yet";
  std::int64_t trials = 0;
  for (int r = 0; r < 16; ++r) {
    scheduler.next();
    trials += 16;
    scheduler.report(0, curve.at(trials), 16);
  }
  const double real = 2 * (curve.at(trials) - curve.at(2 * trials));
  const double expected = scheduler.expected_gain(trials);
  EXPECT_GT(expected, 0.4 * real);
  EXPECT_LT(expected, 2.5 * real);
  EXPECT_GT(scheduler.expected_gain(2 * trials), expected);
}

TEST(TaskScheduler, PromiseDecidesHowLongATaskGoesOnWithoutGain) {
  SchedulerOptions options;
  options.stop_after = 64;
  const auto trials_until_stop = [&](double promise) {
    TaskScheduler scheduler({{"a", 1, {1}}}, options);
    while (scheduler.next()) {
      scheduler.set_promise(0, promise);
      scheduler.report(0, 1e-3, 8);
    }
    return scheduler.trials(0);
  };
  const std::int64_t unknown = trials_until_stop(-1);
  EXPECT_EQ(unknown, 8 + 64);
  EXPECT_EQ(trials_until_stop(0), 8 + 16);
  EXPECT_EQ(trials_until_stop(1), 8 + 128);
  EXPECT_GT(trials_until_stop(0.5), unknown);
  // Of two tasks that are alike otherwise, the one that promises more gets more.
  options.stop_after = 0;
  TaskScheduler scheduler(std::vector<ScheduledTask>(2, {"a", 1, {1}}), options);
  scheduler.set_promise(0, 0.9);
  scheduler.set_promise(1, 0.05);
  for (int r = 0; r < 40; ++r) scheduler.report(*scheduler.next(), 1e-3, 8);
  EXPECT_GT(scheduler.trials(0), 2 * scheduler.trials(1));
  EXPECT_GT(scheduler.trials(1), 0);
}

TEST(TaskScheduler, SameSeedSameOrder) {
  const auto order = [](std::uint64_t seed) {
    SchedulerOptions options;
    options.seed = seed;
    TaskScheduler scheduler(std::vector<ScheduledTask>(6, {"a", 1, {1}}), options);
    std::vector<std::size_t> out;
    for (int r = 0; r < 30; ++r) {
      out.push_back(*scheduler.next());
      scheduler.report(out.back(), 1, 8);
    }
    return out;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  TaskScheduler empty({}, {});
  EXPECT_EQ(empty.next(), std::nullopt);
  EXPECT_EQ(empty.objective(), 0);
}

}  // namespace
}  // namespace tessera::search
