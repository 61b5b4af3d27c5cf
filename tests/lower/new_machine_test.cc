// Machines that do not exist, as far as lowering: their rows are all it takes.
#include <gtest/gtest.h>

#include "schedule_case.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/target/machine_table.h"
#include "tessera/scheduling/lower/check_limits.h"
#include "tessera/scheduling/lower/lower.h"
#include "thread_case.h"

namespace tessera::lower {
namespace {

// A GPU with warps of 64 threads, little shared memory and no tensor cores.
target::Target wide_gpu() {
  target::GpuMachine row = target::gpu_machines().back();
  row.name = "wide-1";
  row.generation.warp = 64;
  row.generation.block_shared_bytes = 2048;
  row.block_threads = 128;
  return target::make_target(row);
}

constexpr const char* kRowSums =
    "split Y c 128\nannotate Y r blockIdx.x\nannotate Y c.1 threadIdx.x\n";

TEST(NewMachine, LowersForItsWarpsAndLimits) {
  const te::Dag dag = dag_of("reduce:R=3,C=256,op=sum");
  const schedule::Schedule steps = schedule::schedule_from_text(kRowSums).value();
  const auto lowered = lower(dag, steps, wide_gpu());
  ASSERT_TRUE(lowered.ok()) << lowered.error().message;
  const std::string text = ir::to_text(lowered->program);
  EXPECT_NE(text.find(", warp in 64\n"), std::string::npos) << text;
  EXPECT_NE(text.find("shuffle_xor(Y.acc[0], 32)"), std::string::npos) << text;
  EXPECT_EQ(run_threads(dag, lowered->program), "") << text;
  const auto usual = lower(dag, steps, target::find_target("h200").value());
  ASSERT_TRUE(usual.ok()) << usual.error().message;
  EXPECT_EQ(ir::to_text(usual->program).find("shuffle_xor(Y.acc[0], 32)"), std::string::npos);
  target::Target small = wide_gpu();
  small.gpu.block_threads = 64;
  const auto refused = lower(dag, steps, small);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "launch Y needs 128 threads in a block; the device has 64");
}

}  // namespace
}  // namespace tessera::lower
