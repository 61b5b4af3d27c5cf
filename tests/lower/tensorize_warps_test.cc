// Products on tensor cores: that warps compute what the Dag means, and what is refused.
#include <gtest/gtest.h>

#include "schedule_case.h"
#include "tessera/lang/ir/text.h"
#include "tessera/scheduling/lower/check_limits.h"
#include "tests/testing/testing.h"
#include "thread_case.h"

namespace tessera::lower {
namespace {

struct Case {
  std::string left = "A", right = "B";  // operands
  std::string sums = "C", out = "out";  // stages
  std::string instruction = "mma16x16x16";
  int depth = 16, steps = 2;
  int row_bytes = 2;  // of an element
  int places = 0;     // of a pipeline
};

// Blocks of 32 x 64, two warps of 32 x 32.
std::string schedule_of(const Case& c) {
  std::string text;
  for (const std::string& x : {c.left, c.right})
    text += fmt::format("cache_read {} shared {}\n", x, c.sums);
  text += fmt::format(
      "split {0} i 2 2 8\n"
      "split {0} j 2 4 4 2\n"
      "reorder {0} i.0 j.0 j.1 i.3 j.3 i.1 i.2 j.2 j.4\n"
      "fuse {0} i.3 j.3\n"
      "annotate {0} i.0 blockIdx.y\n"
      "annotate {0} j.0 blockIdx.x\n"
      "annotate {0} j.1 threadIdx.y\n"
      "annotate {0} i.3@j.3 threadIdx.x\n"
      "annotate {0} i.1 unroll\n"
      "annotate {0} i.2 unroll\n"
      "annotate {0} j.2 unroll\n"
      "annotate {0} j.4 vectorize\n",
      c.out);
  text += fmt::format(
      "compute_at {0} {1} j.1\n"
      "split {0} k {2} {3}\n"
      "split {0} i 16\n"
      "split {0} j 16\n"
      "reorder {0} k.0 k.1 i.0 j.0 i.1 j.1 k.2\n"
      "annotate {0} k.1 unroll\n"
      "annotate {0} i.0 unroll\n"
      "annotate {0} j.0 unroll\n"
      "tensorize {0} i.1 {4}\n",
      c.sums, c.out, c.steps, c.depth, c.instruction);
  if (c.places > 0) text += fmt::format("pragma {} k.0 pipeline {}\n", c.sums, c.places);
  const int row = 16 / c.row_bytes;
  for (const std::string& x : {c.left, c.right}) {
    text += fmt::format(
        "compute_at {0}.shared {1} k.0\n"
        "fuse {0}.shared d0 d1\n"
        "split {0}.shared d0@d1 2 32 {2}\n"
        "annotate {0}.shared d0@d1.1 threadIdx.y\n"
        "annotate {0}.shared d0@d1.2 threadIdx.x\n"
        "annotate {0}.shared d0@d1.3 vectorize\n"
        "storage_align {0}.shared 0 {3} {2}\n",
        x, c.sums, row, 2 * row);
  }
  return text;
}

TEST(TensorizeWarps, LoopsBecomeProductsOfAWarp) {
  const te::Dag dag = dag_of("matmul:M=32,N=64,K=32,dtype=f16");
  Case small;
  small.steps = 1;
  testing::expect_golden("lower/tensorize/mma.txt",
                         ir::to_text(lower_threads(dag, schedule_of(small))));
}

// Four threads exchange what they hold of a row, unless some of them have nothing to store.
TEST(TensorizeWarps, ResultsAreStored16BytesAtATime) {
  const auto text = [](const char* spec) {
    return ir::to_text(lower_threads(dag_of(spec), schedule_of({})));
  };
  const std::string wide = text("matmul:M=64,N=64,K=64,dtype=f16");
  EXPECT_NE(wide.find(", 1, 8)] = out.row[ramp(0, 1, 8)]"), std::string::npos) << wide;
  EXPECT_EQ(wide.find("], 1, 2)] = cast<f16>"), std::string::npos) << wide;
  EXPECT_EQ(text("matmul:M=64,N=70,K=64,dtype=f16").find("shuffle_xor"), std::string::npos);
}

TEST(TensorizeWarps, WholeTiles) {
  expect_threads_agree(dag_of("matmul:M=64,N=64,K=64,dtype=f16"), schedule_of({}));
  expect_threads_agree(dag_of("matmul:M=32,N=64,K=32,dtype=bf16"), schedule_of({}));
}

TEST(TensorizeWarps, OddSizesAddZeros) {
  expect_threads_agree(dag_of("matmul:M=37,N=70,K=45,dtype=f16"), schedule_of({}));
}

TEST(TensorizeWarps, TensorsSmallerThanATile) {
  expect_threads_agree(dag_of("matmul:M=7,N=10,K=19,dtype=f16"), schedule_of({}));
  expect_threads_agree(dag_of("matmul:M=20,N=33,K=40,TA=1,TB=1,dtype=f16"), schedule_of({}));
}

TEST(TensorizeWarps, OperandsOfEveryOrder) {
  for (const char* spec :
       {"matmul:M=32,N=64,K=40,TA=1,dtype=f16", "matmul:M=32,N=64,K=40,TB=1,dtype=f16",
        "matmul:M=32,N=64,K=40,TA=1,TB=1,dtype=bf16"}) {
    SCOPED_TRACE(spec);
    expect_threads_agree(dag_of(spec), schedule_of({}));
  }
}

TEST(TensorizeWarps, BiasAndActivationAreAppliedToWhatAThreadHolds) {
  Case dense;
  dense.left = "X";
  dense.right = "W";
  dense.out = "Y";
  expect_threads_agree(dag_of("dense:M=33,N=64,K=32,dtype=f16"), schedule_of(dense));
}

TEST(TensorizeWarps, Pipelines) {
  Case pipelined;
  pipelined.places = 3;
  expect_threads_agree(dag_of("matmul:M=32,N=64,K=136,dtype=f16"), schedule_of(pipelined));
}

TEST(TensorizeWarps, Bytes) {
  Case bytes;
  bytes.instruction = "mma16x16x32";
  bytes.depth = 32;
  bytes.steps = 1;
  bytes.row_bytes = 1;
  bytes.sums = "C.local";
  bytes.out = "C";
  expect_threads_agree(dag_of("matmul:M=32,N=64,K=64,TB=1,dtype=i8"),
                       "cache_write C local\n" + schedule_of(bytes));
}

Case singles() {
  Case c;
  c.instruction = "mma16x16x8";
  c.depth = 8;
  c.row_bytes = 4;
  c.sums = "C.local";
  c.out = "C";
  return c;
}

// Sums of products of numbers that tf32 holds are exact.
TEST(TensorizeWarps, SinglesAreRoundedToTf32) {
  const te::Dag dag = dag_of("matmul:M=32,N=64,K=20,TB=1");
  const ir::DeviceProgram program =
      lower_threads(dag, "cache_write C local\n" + schedule_of(singles()));
  Rng rng(3);
  std::vector<HostTensor> inputs;
  for (const te::Input& in : dag.inputs) {
    inputs.push_back(random_tensor(in.buffer->dtype, in.buffer->shape, rng));
    HostTensor& t = inputs.back();
    for (std::int64_t i = 0; i < t.size(); ++i)
      t.set_float(i, std::round(t.get_float(i) * 64) / 64);
  }
  EXPECT_EQ(run_threads(dag, program, inputs, 1e-6), "");
  inputs[0].set_float(0, 1 + 1.0 / 4096);
  EXPECT_NE(run_threads(dag, program, inputs, 1e-6), "");
}

TEST(TensorizeWarps, WhatIsNoTileOfTheInstructionIsRefused) {
  const te::Dag dag = dag_of("matmul:M=64,N=64,K=64,dtype=f16");
  Case wrong;
  wrong.depth = 8;
  expect_threads_refused(dag, schedule_of(wrong), "the loops of mma16x16x16 must be 16, 16, 16");
  wrong = {};
  wrong.instruction = "mma16x16x32";
  wrong.depth = 32;
  expect_threads_refused(dag, schedule_of(wrong), "the factors of mma16x16x32 are not elements of");
  std::string text = schedule_of({});
  text.replace(text.find("cache_read A shared C\n"), 22, "");
  text.resize(text.find("compute_at A.shared"));
  expect_threads_refused(dag,
                         text +
                             "compute_at B.shared C k.0\nfuse B.shared d0 d1\n"
                             "split B.shared d0@d1 32\nannotate B.shared d0@d1.1 threadIdx.x\n",
                         "A is not in shared memory");
  expect_threads_refused(
      dag_of("matmul:M=64,N=64,K=64"), "cache_write C local\n" + schedule_of(singles()),
      "B.shared must lie in shared memory with the elements of a sum side by side");
}

TEST(TensorizeWarps, ThreadsReadOnlyWhatTheyHold) {
  const te::Dag dag = dag_of("matmul:M=64,N=64,K=64,dtype=f16");
  std::string text = schedule_of({});
  const std::string order = "reorder out i.0 j.0 j.1 i.3 j.3 ";
  text.replace(text.find(order), order.size(), "reorder out i.0 j.0 j.1 j.3 i.3 ");
  for (const std::string_view from : {"i.3 j.3\n", "i.3@j.3"}) {
    const std::string to = from == "i.3@j.3" ? "j.3@i.3" : "j.3 i.3\n";
    text.replace(text.find(from), from.size(), to);
  }
  expect_threads_refused(dag, text, "a thread reads C of another");
}

TEST(TensorizeWarps, ALaunchIsMadeOfWarps) {
  const te::Dag dag = dag_of("matmul:M=64,N=64,K=64,dtype=f16");
  std::string text = schedule_of({});
  const std::string copy = "split A.shared d0@d1 2 32 8";
  text.replace(text.find(copy), copy.size(), "split A.shared d0@d1 2 64 8");
  expect_threads_refused(dag, text, "must have 32 threads in x, not 64");
}

TEST(TensorizeWarps, DevicesWithoutTensorCoresAreRefused) {
  const te::Dag dag = dag_of("matmul:M=64,N=64,K=64,dtype=bf16");
  const ir::DeviceProgram program = lower_threads(dag, schedule_of({}));
  EXPECT_TRUE(check_limits(program, launch_limits(*target::find_target("a100"))).ok());
  for (const char* name : {"t4", "opencl-1.2"}) {
    const auto refused = check_limits(program, launch_limits(*target::find_target(name)));
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_NE(
        refused.error().message.find("needs tensor cores for products of 16 x 8 x 16 in bf16"),
        std::string::npos)
        << refused.error().message;
  }
}

}  // namespace
}  // namespace tessera::lower
