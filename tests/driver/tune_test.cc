// Tuning in the process, with workers that misbehave on purpose.
#include "tessera/driver/tune.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace tessera::driver {
namespace {

TuneOptions tiny() {
  TuneOptions o;
  o.subjects = {{"matmul:M=32,N=24,K=16", true, {}}};
  o.target = target::host();
  o.policy = "random";
  o.trials = 10;
  o.batch = 4;
  o.measure.trial_limit_s = 0.02;
  return o;
}

TEST(Tune, FindsNothingWorseThanTheDefault) {
  int progress = 0;
  TuneCallbacks callbacks;
  callbacks.progress = [&](const TuneProgress& p) {
    ++progress;
    EXPECT_EQ(p.tasks, 1u);
  };
  const Result<TuneResult> result = tune(tiny(), callbacks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kDone);
  EXPECT_EQ(result->trials, 10);
  EXPECT_EQ(result->stopped_by, "trials");
  ASSERT_EQ(result->tasks.size(), 1u);
  EXPECT_TRUE(result->tasks[0].used);
  EXPECT_LE(result->tasks[0].after_s, result->tasks[0].before_s);
  EXPECT_EQ(result->plan.tasks.size(), 1u);
  EXPECT_NE(result->plan.find(result->tasks[0].key), nullptr);
  EXPECT_GT(progress, 0);
}

TEST(Tune, SaysWhenNoTrialGaveATime) {
  TuneOptions options = tiny();
  options.trials = 3;
  options.measure.hooks.before_build = [](const measure::Trial&) { std::_Exit(3); };
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kNoMeasurement);
  EXPECT_TRUE(result->plan.tasks.empty());
}

TEST(Tune, AnInterruptBeforeTheFirstTrialLeavesNoPlan) {
  TuneCallbacks callbacks;
  callbacks.interrupted = [] { return true; };
  const Result<TuneResult> result = tune(tiny(), callbacks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kInterrupted);
}

}  // namespace
}  // namespace tessera::driver
