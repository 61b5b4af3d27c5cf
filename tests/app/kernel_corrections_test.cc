// Times of kernels, corrected by whole models.
#include "tessera/app/tune/kernel_corrections.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/frontend/graph/builder.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

// Ten places; the rules put kernel rN at place N, plans may put aN there. Each takes a tenth.
PlanTasks plan_of(const std::vector<bool>& changed) {
  PlanTasks out;
  for (std::size_t i = 0; i < changed.size(); ++i)
    out[(changed[i] ? "a" : "r") + std::to_string(i)] = 1;
  return out;
}

PlanCosts costs_of(std::size_t places, double alternative_s) {
  graph::GraphBuilder b("empty");
  const graph::ValueId x = b.input("x", {DType::kF32, {4}});
  PlanCosts costs(task::PlanSpace::make(b.finish({x}, {"y"}), {}, {}).value());
  std::map<std::string, double> seconds;
  for (std::size_t i = 0; i < places; ++i) {
    seconds["r" + std::to_string(i)] = 1e-3;
    seconds["a" + std::to_string(i)] = alternative_s;
  }
  costs.set_seconds(std::move(seconds));
  return costs;
}

TEST(KernelCorrections, BelieveSumsBeforeAnythingIsMeasured) {
  const PlanCosts costs = costs_of(10, 0.8e-3);
  const KernelCorrections corrections(costs);
  const PlanTasks rules = plan_of(std::vector<bool>(10, false));
  std::vector<bool> one(10, false), two = one;
  one[3] = two[3] = two[5] = true;
  EXPECT_NEAR(corrections.believe(rules, plan_of(one)).share, 0.98, 1e-12);
  EXPECT_NEAR(corrections.believe(rules, plan_of(two)).share, 0.96, 1e-12);
  EXPECT_GT(corrections.believe(rules, plan_of(two)).deviation,
            corrections.believe(rules, plan_of(one)).deviation);
  EXPECT_DOUBLE_EQ(corrections.believe(rules, rules).share, 1);
  EXPECT_DOUBLE_EQ(corrections.believe(rules, rules).deviation, 0);
  PlanTasks unknown = plan_of(one);
  unknown["never timed"] = 1;
  EXPECT_TRUE(std::isinf(corrections.believe(rules, unknown).share));
}

// Alone all alternatives gain a fifth; between others, those at even places lose as much.
TEST(KernelCorrections, WholeModelsTellWhichKernelsGain) {
  const PlanCosts costs = costs_of(10, 0.8e-3);
  KernelCorrections corrections(costs);
  const PlanTasks rules = plan_of(std::vector<bool>(10, false));
  Rng rng(1);
  for (int i = 0; i < 30; ++i) {
    std::vector<bool> changed;
    double share = 1;
    for (int p = 0; p < 10; ++p) {
      changed.push_back(rng.chance(0.4));
      if (changed.back()) share += p % 2 == 0 ? 0.02 : -0.02;
    }
    corrections.observe(rules, plan_of(changed), share + 0.002 * (rng.uniform() - 0.5));
  }
  for (std::size_t p = 0; p < 10; ++p) {
    std::vector<bool> one(10, false);
    one[p] = true;
    const KernelCorrections::Belief belief = corrections.believe(rules, plan_of(one));
    EXPECT_NEAR(belief.share, p % 2 == 0 ? 1.02 : 0.98, 0.01) << p;
    EXPECT_LT(belief.deviation, 0.01) << p;
  }
}

TEST(KernelCorrections, WhatCannotBeMeasuredTellsNothing) {
  const PlanCosts costs = costs_of(2, 0.8e-3);
  KernelCorrections corrections(costs);
  const PlanTasks rules = plan_of({false, false}), plan = plan_of({true, false});
  const double before = corrections.believe(rules, plan).share;
  corrections.observe(rules, plan, std::numeric_limits<double>::infinity());
  corrections.observe(rules, rules, 1);
  corrections.observe(rules, {{"never timed", 1}}, 0.5);
  EXPECT_DOUBLE_EQ(corrections.believe(rules, plan).share, before);
}

}  // namespace
}  // namespace tessera::app
