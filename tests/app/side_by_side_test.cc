// Times of models whose branches run side by side, by made-up times of kernels.
#include "tessera/app/tune/side_by_side.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/tune/kernel_corrections.h"
#include "tessera/app/tune/plan_costs.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/space/default_schedule.h"

namespace tessera::app {
namespace {

// One kernel, two branches of two and one, and one that reads both.
std::vector<RunningKernel> fork(double share) {
  return {{1, share, {}}, {2, share, {0}}, {3, share, {1}}, {4, share, {0}}, {1, share, {2, 3}}};
}

TEST(SideBySide, SmallKernelsTakeTheLongestWay) {
  EXPECT_DOUBLE_EQ(side_by_side_seconds(fork(0.1)), 1 + 5 + 1);
}

TEST(SideBySide, KernelsThatFillTheDeviceTakeTheirSum) {
  EXPECT_DOUBLE_EQ(side_by_side_seconds(fork(1)), 11);
}

TEST(SideBySide, SharesThatDoNotFitSlowAllDown) {
  // 4 of each branch at three quarters of the speed that they have alone, the rest alone.
  EXPECT_NEAR(side_by_side_seconds(fork(2.0 / 3)), 1 + 4 * 4.0 / 3 + 1 + 1, 1e-12);
  EXPECT_DOUBLE_EQ(side_by_side_seconds({}), 0);
}

TEST(SideBySide, ChainsTakeTheirSum) {
  std::vector<RunningKernel> chain;
  for (std::size_t i = 0; i < 5; ++i) {
    chain.push_back({1.0 + static_cast<double>(i), 0.1, {}});
    if (i > 0) chain.back().after.push_back(i - 1);
  }
  EXPECT_DOUBLE_EQ(side_by_side_seconds(chain), 15);
}

task::PlannedGraph planned(const std::string& model) {
  CompileOptions load;
  return task::apply_plan(import_graph(model, load).value(), passes_for(load), {}, {}).value();
}

TEST(SideBySide, CallsWaitForWhatTheyRead) {
  const task::PlannedGraph made = planned("zoo:squeezenet1_1@size=40,classes=10");
  const auto before = calls_before(made.tasks);
  ASSERT_EQ(before.size(), made.tasks.calls.size());
  std::vector<int> readers(before.size(), 0);
  std::size_t first = 0;
  for (std::size_t c = 0; c < before.size(); ++c) {
    first += before[c].empty() ? 1 : 0;
    for (const std::size_t b : before[c]) {
      EXPECT_LT(b, c);
      ++readers[b];
    }
  }
  EXPECT_EQ(first, 1u) << "only the first kernel reads nothing but the image";
  // Both expanding convolutions of each of eight modules read the same.
  EXPECT_GE(std::count_if(readers.begin(), readers.end(), [](int n) { return n > 1; }), 8);
}

TEST(PlanCosts, WholeModelsTellWhatIsGainedSideBySide) {
  CompileOptions load;
  PlanCosts costs(
      task::PlanSpace::make(import_graph("zoo:squeezenet1_1@size=40,classes=10", load).value(),
                            passes_for(load), {})
          .value());
  costs.run_side_by_side();
  const PlanTasks rules = **costs.tasks_of({});
  std::map<std::string, double> seconds, shares;
  double sum = 0;
  for (const auto& [key, count] : rules) {
    seconds[key] = 2e-6;
    shares[key] = 0.25;
    sum += count * 2e-6;
  }
  costs.set_seconds(seconds);
  EXPECT_NEAR(costs.expected_s({}), sum, 1e-12) << "kernels that fill the device";
  costs.set_device_shares(shares);
  const double most = costs.expected_s({});
  EXPECT_LT(most, 0.8 * sum);
  costs.calibrate({}, (most + sum) / 2);
  EXPECT_NEAR(costs.expected_s({}), (most + sum) / 2, 1e-12);
  costs.calibrate({}, 2 * sum);
  EXPECT_NEAR(costs.expected_s({}), sum, 1e-12) << "it runs as a chain";
}

TEST(KernelCorrections, BeginWithWhatIsExpected) {
  CompileOptions load;
  PlanCosts costs(
      task::PlanSpace::make(import_graph("zoo:lenet", load).value(), passes_for(load), {}).value());
  costs.set_seconds({{"r", 1e-3}, {"a", 0.5e-3}});
  KernelCorrections corrections(costs);
  const PlanTasks rules = {{"r", 1}}, plan = {{"a", 1}};
  EXPECT_DOUBLE_EQ(corrections.believe(rules, plan).share, 0.5);
  EXPECT_DOUBLE_EQ(corrections.believe(rules, plan, 0.9).share, 0.9);
  corrections.observe(rules, plan, 0.9, 0.9);
  EXPECT_NEAR(corrections.believe(rules, plan, 0.9).share, 0.9, 1e-9) << "no surprise";
}

TEST(SideBySide, ABlockIsASmallShareOfADevice) {
  const task::PlannedGraph made = planned("zoo:lenet");
  const target::Target device = target::find_target("h200").value();
  for (const task::Task& task : made.tasks.tasks) {
    const auto schedule = space::default_schedule(task.dag, device);
    ASSERT_TRUE(schedule.ok());
    const double share = device_share(task.dag, *schedule, device);
    EXPECT_GT(share, 0);
    EXPECT_LT(share, 1) << task.name;
  }
}

}  // namespace
}  // namespace tessera::app
