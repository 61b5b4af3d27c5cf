// Machines and instructions that do not exist, as far as lowering: their rows are all it takes.
#include <gtest/gtest.h>

#include "schedule_case.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/target/machine_table.h"
#include "tessera/scheduling/lower/check_limits.h"
#include "tessera/scheduling/lower/lower.h"
#include "tessera/scheduling/lower/tensorize_loops.h"
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

// for n in 8, q in depth: acc[n] += i32(a[n, q]) * i32(b[n, q])
struct Dots {
  ir::Buffer acc = ir::Buffer::make("acc", DType::kI32, {8}, ir::Scope::kStack);
  ir::Expr n = ir::Var::make("n"), q = ir::Var::make("q");
  ir::Stmt loops;
  LoopAttrs attrs;

  Dots(DType type, std::int64_t depth, const char* instruction) {
    const ir::Buffer a = ir::Buffer::make("A", type, {8 * depth}),
                     b = ir::Buffer::make("B", type, {8 * depth});
    const auto wide = [&](const ir::Buffer& from) {
      return ir::Cast::make(DType::kI32, ir::Load::make(from, {n * depth + q}));
    };
    const ir::Stmt add = ir::Store::make(acc, {n}, ir::Load::make(acc, {n}) + wide(a) * wide(b));
    loops = ir::For::make(n, 8, ir::LoopKind::kSerial,
                          ir::For::make(q, depth, ir::LoopKind::kSerial, add));
    attrs.tensorize[n.get()] = instruction;
  }
};

TEST(NewMachine, AMadeUpMatrixInstructionReplacesLoops) {
  const target::MatrixInstruction row = {.name = "udot4",
                                         .operands = target::Operands::kLanes,
                                         .threads = 1,
                                         .m = 0,
                                         .n = 0,
                                         .k = 4,
                                         .types = {DType::kU8, DType::kU8},
                                         .sums = DType::kI32};
  const auto lowered = [&](const Dots& dots, const target::MatrixInstruction& rows) {
    Result<void> result;
    const ir::Stmt out = tensorize_loops(dots.loops, dots.attrs, &result, std::span(&rows, 1));
    return result.ok() ? ir::to_text(out) : result.error().message;
  };
  EXPECT_NE(lowered(Dots(DType::kU8, 4, "udot4"), row).find("dot4(acc[ramp(0, 1, 8)]"),
            std::string::npos)
      << lowered(Dots(DType::kU8, 4, "udot4"), row);
  EXPECT_EQ(lowered(Dots(DType::kI8, 4, "udot4"), row),
            "tensorize udot4: the factors are not casts of u8 or u8 to i32");
  target::MatrixInstruction deep = row;
  deep.k = 8;
  EXPECT_EQ(lowered(Dots(DType::kU8, 8, "udot4"), deep),
            "tensorize udot4: the IR has no product of its shape");
}

}  // namespace
}  // namespace tessera::lower
