// Every task of every built-in network: candidates drawn from its space build, run, and compute
// what the task means.
#include <gtest/gtest.h>

#include "tessera/backend/kernel/check_output.h"
#include "tessera/backend/kernel/compile_op.h"
#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/frontend/onnx/import.h"
#include "tessera/frontend/task/task.h"
#include "tessera/frontend/zoo/zoo.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/scheduling/lower/lower_device.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/support/hash.h"

namespace tessera::task {
namespace {

constexpr int kSamples = 4;
constexpr std::int64_t kPoints = 24;

// Empty, or what is wrong.
std::string check_schedule(const Task& t, const schedule::Schedule& schedule,
                           const std::vector<HostTensor>& inputs, runtime::ThreadPool& pool) {
  const auto op = kernel::compile_op(t.dag, schedule::to_text(schedule), target::host());
  if (!op.ok()) return op.error().message;
  runtime::CpuDevice device(pool);
  kernel::OpRunner runner(*op, device);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (const auto set = runner.set_input(i, inputs[i]); !set.ok()) return set.error().message;
  }
  if (const auto ran = runner.run(); !ran.ok()) return ran.error().message;
  for (std::size_t o = 0; o < t.dag.outputs.size(); ++o) {
    const auto want = kernel::reference(t.dag, inputs, o, kPoints, 1);
    if (!want.ok()) return want.error().message;
    const double allowed = kernel::tolerance(t.dag, o);
    if (const double error = kernel::worst_error(*want, runner.output(o).value(), allowed);
        error > 1)
      return fmt::format("output {} is off by {} times what is allowed", o, error);
  }
  return "";
}

void check_task(const Task& t, runtime::ThreadPool& pool) {
  const auto space = space::make_space(t.dag, target::host());
  ASSERT_TRUE(space.ok()) << t.name << ": " << space.error().message;
  const std::vector<HostTensor> inputs = kernel::random_inputs(t.dag, 1);
  Rng rng(hash_bytes(t.key));
  for (int i = 0; i < kSamples; ++i) {
    const decide::Candidate candidate = i == 0 ? space->preferred() : space->sample(rng);
    const auto schedule = space->schedule(candidate);
    ASSERT_TRUE(schedule.ok()) << t.name << ": " << schedule.error().message;
    EXPECT_EQ(check_schedule(t, *schedule, inputs, pool), "") << t.name << " " << t.key << "\n"
                                                              << space->to_text(candidate);
  }
}

class SpacesOfTheZoo : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto model = zoo::make_model(GetParam(), {.fill_weights = false});
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto graph = onnx::import_model(*model, {});
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    const auto optimized = graph::optimize(*graph, {});
    ASSERT_TRUE(optimized.ok()) << optimized.error().message;
    auto extracted = extract_tasks(*graph);
    ASSERT_TRUE(extracted.ok()) << extracted.error().message;
    tasks_ = std::move(extracted->tasks);
  }

  std::vector<Task> tasks_;
};

TEST_P(SpacesOfTheZoo, AreCorrect) {
  runtime::ThreadPool pool({.threads = 2});
  for (const Task& t : tasks_) check_task(t, pool);
}

// Nothing runs: what is asked for lies within the limits of the device.
TEST_P(SpacesOfTheZoo, StayWithinTheLimitsOfAGpu) {
  const target::Target gpu = target::find_target("h200").value();
  for (const Task& t : tasks_) {
    const auto space = space::make_space(t.dag, gpu);
    ASSERT_TRUE(space.ok()) << t.name << ": " << space.error().message;
    Rng rng(hash_bytes(t.key));
    for (int i = 0; i < kSamples; ++i) {
      const decide::Candidate candidate = i == 0 ? space->preferred() : space->sample(rng);
      SCOPED_TRACE(t.name + " " + t.key + "\n" + space->to_text(candidate));
      const auto schedule = space->schedule(candidate);
      ASSERT_TRUE(schedule.ok()) << schedule.error().message;
      const auto lowered = lower::lower(t.dag, *schedule, gpu);
      ASSERT_TRUE(lowered.ok()) << lowered.error().message;
    }
  }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const zoo::ZooEntry& entry : zoo::zoo_table()) out.push_back(entry.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, SpacesOfTheZoo, ::testing::ValuesIn(names()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace tessera::task
