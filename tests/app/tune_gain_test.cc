// The gain that a tuning tells while it runs, on a machine whose times are disturbed at random.
#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "tessera/app/tune/confirmed_gains.h"
#include "tessera/app/tune/tune.h"
#include "tests/app/fake_measurer.h"

namespace tessera::app {
namespace {

constexpr double kDefault = 1e-3;

struct Told {
  double shown = 0, last = 0;  // gains while it searches, and at the end
  double naive = 0;            // the fastest trial against the first
};

// Every other schedule takes `share` of the default's time. Times of trials vary by `noise`, those
// of samples that are taken in turns as much, but there are more of them.
Told tune_once(std::uint64_t seed, double share, double noise) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  double now_s = 0, fastest_s = 1, first_s = 0;
  std::string preferred;
  TuneOptions options;
  options.subjects = {{"matmul:M=64,N=64,K=64", true, {}}};
  options.target = target::host();
  options.policy = "random";
  options.learner.model = "none";
  options.trials = 80;
  options.batch = 8;
  options.seed = seed;
  options.elapsed_s = [&] { return now_s; };
  use_answers(
      [&](const measure::Trial& t, bool side_by_side, measure::Measurement* m) {
        now_s += 0.3;
        const std::string text = schedule::to_text(t.steps);
        if (preferred.empty()) preferred = text;
        const bool fast = text != preferred && std::hash<std::string>()(text) % 2 == 0;
        const double true_s = kDefault * (fast ? share : 1);
        const double of_trial = side_by_side ? 1 : std::exp(noise * normal(random));
        for (int i = 0; i < (side_by_side ? 24 : 5); ++i) {
          m->samples_s.push_back(true_s * of_trial * std::exp(noise * normal(random)));
        }
        m->calibration_s = 1e-5 * std::exp(noise * normal(random));
        if (side_by_side) return;
        if (first_s == 0) first_s = m->seconds();
        fastest_s = std::min(fastest_s, m->seconds());
      },
      &options);
  Told told;
  TuneCallbacks callbacks;
  callbacks.progress = [&](const TuneProgress& p) {
    if (p.phase == TuneProgress::Phase::kSearch && p.after_s > 0)
      told.shown = p.before_s / p.after_s;
  };
  const Result<TuneResult> result = tune(options, callbacks);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  if (!result.ok()) return told;
  told.last = result->tasks[0].before_s / result->tasks[0].after_s;
  EXPECT_EQ(result->tasks[0].best_s, result->tasks[0].after_s);
  told.naive = first_s / fastest_s;
  return told;
}

Told mean_of(double share, double noise) {
  constexpr int kSeeds = 32;
  Told sum;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const Told one = tune_once(static_cast<std::uint64_t>(seed), share, noise);
    sum.shown += one.shown / kSeeds;
    sum.last += one.last / kSeeds;
    sum.naive += one.naive / kSeeds;
  }
  return sum;
}

TEST(TuneGain, NothingIsToldWhereNothingIsGained) {
  const Told mean = mean_of(1, 0.1);
  EXPECT_GT(mean.naive, 1.15) << "what the luck of the best of many would tell";
  EXPECT_NEAR(mean.shown, 1, 0.025);
  EXPECT_NEAR(mean.last, 1, 0.025);
}

TEST(TuneGain, WhatIsGainedIsToldAsItIs) {
  const Told mean = mean_of(0.8, 0.1);
  EXPECT_GT(mean.naive, 1.4);
  EXPECT_NEAR(mean.shown, 1.25, 0.03);
  EXPECT_NEAR(mean.last, 1.25, 0.03);
}

// An agent of a fleet that is twice as slow has the finals, of another that had the trials.
TEST(TuneGain, FinalsOfASlowerMachineAreToldAsThoseOfTheFirst) {
  TuneOptions options;
  options.subjects = {{"matmul:M=64,N=64,K=64", true, {}}};
  options.target = target::host();
  options.policy = "random";
  options.learner.model = "none";
  options.trials = 16;
  std::string preferred;
  int compared = 0;
  use_answers(
      [&](const measure::Trial& t, bool side_by_side, measure::Measurement* m) {
        const std::string text = schedule::to_text(t.steps);
        if (preferred.empty()) preferred = text;
        compared += side_by_side ? 1 : 0;
        m->machine = side_by_side ? 2 : 1;
        const double slower = side_by_side ? 2 : 1;
        m->samples_s.assign(8, slower * kDefault * (text == preferred ? 1 : 0.5));
        m->calibration_s = slower * 1e-5;
      },
      &options);
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GT(compared, 0);
  EXPECT_DOUBLE_EQ(result->tasks[0].before_s, kDefault);
  EXPECT_DOUBLE_EQ(result->tasks[0].after_s, kDefault / 2);
}

TEST(ConfirmedGains, TellWhatTheLastComparisonSaid) {
  ConfirmedGains gains(2);
  EXPECT_EQ(gains.gain(0), 1);
  EXPECT_TRUE(gains.wants(0, "a"));
  EXPECT_DOUBLE_EQ(gains.confirm(0, "a", 4, 2), 2);
  EXPECT_FALSE(gains.wants(0, "a"));
  EXPECT_EQ(gains.gain(0), 2);
  EXPECT_EQ(gains.gain(1), 1);
  EXPECT_DOUBLE_EQ(gains.confirm(0, "b", 3, 2), 1.5);
  EXPECT_TRUE(gains.wants(0, "a")) << "it is the fastest by that comparison, so it needs another";
  EXPECT_DOUBLE_EQ(gains.confirm(0, "a", 1, 2), 1) << "ranked by both";
  EXPECT_EQ(gains.gain(0), 0.5) << "told by the last";
  EXPECT_EQ(gains.seconds({8, 0}), (std::vector<double>{16, 0}));
  gains.keep_default(0, "d");
  EXPECT_EQ(gains.gain(0), 1);
  EXPECT_FALSE(gains.wants(0, "d"));
}

TEST(Halves, OfManySamplesOneChoosesAndTheOtherTells) {
  const Halves many = halves_of({1, 10, 2, 20, 3, 30});
  EXPECT_EQ(many.chosen_by_s, 2);
  EXPECT_EQ(many.told_s, 20);
  const Halves few = halves_of({1, 10, 2});
  EXPECT_EQ(few.chosen_by_s, 2);
  EXPECT_EQ(few.told_s, 2);
  EXPECT_EQ(halves_of({}).told_s, 0);
}

}  // namespace
}  // namespace tessera::app
