#include <gtest/gtest.h>

#include "tessera/machine/target/machine_row.h"
#include "tessera/scheduling/space/gpu/cost.h"
#include "tessera/scheduling/space/gpu/gpu_group.h"
#include "tessera/scheduling/space/gpu/gpu_tensor.h"

namespace tessera::space {
namespace {

target::Target h200() { return target::find_target("h200").value(); }

// A machine that exists in a row alone.
target::Target toy(const target::Rates& rates) {
  target::MachineRow row = target::shipped_row(h200());
  row.target.name = "toy";
  row.target.rates = rates;
  return target::machine_row_from_json(to_json(row), "toy").value().target;
}

TEST(GpuCost, BlocksRunInWaves) {
  const GpuWaves few = gpu_waves(h200(), 10, 2), many = gpu_waves(h200(), 132 * 5, 2);
  EXPECT_EQ(few.at_once, 1);
  EXPECT_EQ(few.waves, 1);
  EXPECT_EQ(many.at_once, 2);
  EXPECT_EQ(many.waves, 3);
}

// Bytes under way are bandwidth times latency: 4.8 TB/s, 835 cycles, 132 multiprocessors.
TEST(GpuCost, ThreadsThatKeepMemoryBusyFollowFromTheRow) {
  EXPECT_EQ(busy_gpu_threads(h200(), 16), 1024);
  EXPECT_EQ(busy_gpu_threads(h200(), 64), 256);
  target::Rates slow = h200().rates;
  slow.all_memory_bytes_per_cycle /= 8;
  EXPECT_EQ(busy_gpu_threads(toy(slow), 16), 128);
  slow.all_memory_bytes_per_cycle = 1e-6;
  EXPECT_EQ(busy_gpu_threads(toy(slow), 16), 32) << "a warp at least";
}

TEST(GpuCost, StepsWaitLessTheMoreAreUnderWay) {
  const target::Target t = h200();
  EXPECT_GT(pipeline_step_cycles(t, {100, 50}, 1), pipeline_step_cycles(t, {100, 50}, 3));
  EXPECT_GT(pipeline_step_cycles(t, {100, 90}, 3), pipeline_step_cycles(t, {100, 50}, 3));
  EXPECT_GT(pipeline_step_cycles(t, {100}, 1), 100 + t.rates.barrier_cycles);
}

TEST(GpuCost, SplitKPaysForAnotherKernel) {
  const target::Target t = h200();
  EXPECT_GT(split_k_cycles(t, 1, 2), t.rates.dispatch_cycles);
  EXPECT_GT(split_k_cycles(t, 1e6, 8), split_k_cycles(t, 1e6, 2));
  // Beyond the L2, sums go to memory and come back.
  const double outputs = static_cast<double>(t.l2_bytes);
  EXPECT_GT(split_k_cycles(t, outputs, 2), 2 * split_k_cycles(t, outputs / 16, 2));
}

TEST(GpuCost, ChoicesFollowTheRow) {
  const TensorProblem p{.row = 128, .column = 768, .reduce = 3072};
  target::Rates rates = h200().rates;
  rates.dispatch_cycles = rates.block_start_cycles = 1;
  EXPECT_GT(choose_tensor_tile(toy(rates), p).parts, 1) << "kernels that cost nothing to start";
  rates.dispatch_cycles = 1e6;
  EXPECT_EQ(choose_tensor_tile(toy(rates), p).parts, 1);
  EXPECT_EQ(choose_group_tile(toy(rates), p).parts, 1);
  // Without barriers or waits, deep pipelines gain nothing.
  rates = h200().rates;
  rates.line_latency_cycles = 1e-3;
  EXPECT_LE(choose_group_tile(toy(rates), p).places, choose_group_tile(h200(), p).places);
}

}  // namespace
}  // namespace tessera::space
