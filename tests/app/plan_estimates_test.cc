// Plans as the sums of kernels that nobody measured.
#include "tessera/app/tune/plan_estimates.h"

#include <gtest/gtest.h>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/shipped_model.h"

namespace tessera::app {
namespace {

TEST(PlanEstimates, AddUpKernels) {
  CompileOptions load;
  const auto imported = import_graph("zoo:lenet", load);
  ASSERT_TRUE(imported.ok());
  const auto planned = task::apply_plan(*imported, passes_for(load), {}, plan::Decider());
  ASSERT_TRUE(planned.ok());
  const std::vector<task::Task>& tasks = planned->tasks.tasks;
  PlanEstimates nobody = PlanEstimates::make({}, target::host(), 1).value();
  EXPECT_EQ(nobody.seconds(tasks), 0);
  const std::vector<std::string> models = model_paths(kShipped, target::host());
  if (models.empty()) GTEST_SKIP() << "no cost model for this machine";
  PlanEstimates estimates = PlanEstimates::make(models, target::host(), 1).value();
  double sum = 0;
  for (const task::Task& t : tasks) {
    EXPECT_GT(estimates.seconds(t), 0) << t.name;
    sum += t.weight * estimates.seconds(t);
  }
  EXPECT_DOUBLE_EQ(estimates.seconds(tasks), sum);
}

TEST(PlanEstimates, RefuseWhatIsNoModel) {
  EXPECT_FALSE(PlanEstimates::make({"no/such/file"}, target::host(), 1).ok());
}

}  // namespace
}  // namespace tessera::app
