// Schedules of blocks and threads: what they lower to, and that it computes what the Dag means.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "schedule_case.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/lower/check_limits.h"
#include "tests/testing/testing.h"
#include "thread_case.h"

namespace tessera::lower {
namespace {

// Tiles of 32 x 64 outputs, 4 x 4 per thread; both operands go through shared memory.
const std::string kMatmul =
    "cache_write C local\n"
    "cache_read A shared C.local\n"
    "cache_read B shared C.local\n"
    "split C i 8 4\n"
    "split C j 16 4\n"
    "reorder C i.0 j.0 i.1 j.1 i.2 j.2\n"
    "annotate C i.0 blockIdx.y\n"
    "annotate C j.0 blockIdx.x\n"
    "annotate C i.1 threadIdx.y\n"
    "annotate C j.1 threadIdx.x\n"
    "compute_at C.local C j.1\n"
    "split C.local k 8\n"
    "reorder C.local k.0 k.1 i j\n"
    "annotate C.local i unroll\n"
    "annotate C.local j unroll\n"
    "compute_at A.shared C.local k.0\n"
    "compute_at B.shared C.local k.0\n"
    "fuse A.shared d0 d1\n"
    "split A.shared d0@d1 8 16\n"
    "annotate A.shared d0@d1.1 threadIdx.y\n"
    "annotate A.shared d0@d1.2 threadIdx.x\n"
    "fuse B.shared d0 d1\n"
    "split B.shared d0@d1 8 16 4\n"
    "annotate B.shared d0@d1.1 threadIdx.y\n"
    "annotate B.shared d0@d1.2 threadIdx.x\n"
    "annotate B.shared d0@d1.3 vectorize\n";

const PassOptions kBeforeVectors{.print_after = {}, .stop_after = "insert_barriers", .skip = {}};

TEST(Threads, MatmulOfOddSizes) {
  const te::Dag dag = dag_of("matmul:M=129,N=65,K=33");
  testing::expect_golden("lower/threads/matmul.txt",
                         ir::to_text(lower_threads(dag, kMatmul, kBeforeVectors)));
  expect_threads_agree(dag, kMatmul);
}

TEST(Threads, ProgramsKnowTheirConstants) {
  const auto steps =
      schedule::schedule_from_text("annotate C i blockIdx.x\nannotate Y i blockIdx.x\n").value();
  const auto lowered = lower_device(dag_of("dense:M=4,N=4,K=4"), steps);
  ASSERT_TRUE(lowered.ok()) << lowered.error().message;
  std::vector<std::string> names;
  for (const ir::Buffer& b : lowered->program.constants) names.push_back(b->name);
  EXPECT_EQ(names, (std::vector<std::string>{"W", "bias"}));
}

TEST(Threads, MatmulWithoutTails) {
  const te::Dag dag = dag_of("matmul:M=64,N=128,K=16");
  const std::string text = ir::to_text(lower_threads(dag, kMatmul));
  EXPECT_EQ(text.find("if "), std::string::npos) << text;
  EXPECT_NE(text.find("B.shared[ramp("), std::string::npos) << text;  // 16 bytes a thread
  expect_threads_agree(dag, kMatmul);
}

TEST(Threads, TensorsSmallerThanATile) {
  expect_threads_agree(dag_of("matmul:M=3,N=5,K=2"), kMatmul);
  expect_threads_agree(dag_of("matmul:M=1,N=1,K=1"), kMatmul);
  expect_threads_agree(dag_of("matmul:M=33,N=63,K=9"), kMatmul);
}

const std::string kConv =
    "cache_write Y local\n"
    "cache_read pad shared Y.local\n"
    "compute_inline pad\n"
    "cache_read W shared Y.local\n"
    "split Y oh 2\n"
    "split Y ow 4\n"
    "split Y co 4\n"
    "reorder Y n oh.0 ow.0 co.0 ow.1 co.1 oh.1\n"
    "fuse Y n oh.0\n"
    "annotate Y n@oh.0 blockIdx.z\n"
    "annotate Y ow.0 blockIdx.y\n"
    "annotate Y co.0 blockIdx.x\n"
    "annotate Y ow.1 threadIdx.y\n"
    "annotate Y co.1 threadIdx.x\n"
    "compute_at Y.local Y co.1\n"
    "split Y.local ci 2\n"
    "reorder Y.local ci.0 kh kw ci.1 n oh ow co\n"
    "annotate Y.local oh unroll\n"
    "compute_at pad.shared Y.local ci.0\n"
    "compute_at W.shared Y.local ci.0\n"
    "fuse pad.shared d0 d1 d2 d3\n"
    "split pad.shared d0@d1@d2@d3 4 4\n"
    "annotate pad.shared d0@d1@d2@d3.1 threadIdx.y\n"
    "annotate pad.shared d0@d1@d2@d3.2 threadIdx.x\n"
    "fuse W.shared d0 d1 d2 d3\n"
    "split W.shared d0@d1@d2@d3 4 4\n"
    "annotate W.shared d0@d1@d2@d3.1 threadIdx.y\n"
    "annotate W.shared d0@d1@d2@d3.2 threadIdx.x\n";

TEST(Threads, ConvolutionThroughSharedMemory) {
  const te::Dag dag = dag_of("conv2d:N=1,H=9,W=7,CI=5,CO=7,KH=3,KW=3,P=1");
  testing::expect_golden("lower/threads/conv.txt",
                         ir::to_text(lower_threads(dag, kConv, kBeforeVectors)));
  expect_threads_agree(dag, kConv);
  expect_threads_agree(dag_of("conv2d:N=2,H=8,W=8,CI=4,CO=8,KH=3,KW=3,P=1,S=2"), kConv);
}

// Two by two virtual threads: each has accumulators of its own, the copies happen once.
const std::string kVirtual =
    "cache_write C local\n"
    "cache_read A shared C.local\n"
    "cache_read B shared C.local\n"
    "split C i 2 4 2\n"
    "split C j 2 8 2\n"
    "reorder C i.0 j.0 i.1 j.1 i.2 j.2 i.3 j.3\n"
    "fuse C i.0 j.0\n"
    "annotate C i.0@j.0 blockIdx.x\n"
    "annotate C i.1 vthread\n"
    "annotate C j.1 vthread\n"
    "fuse C i.2 j.2\n"
    "annotate C i.2@j.2 threadIdx.x\n"
    "compute_at C.local C i.2@j.2\n"
    "split C.local k 4\n"
    "reorder C.local k.0 k.1 i j\n"
    "annotate C.local i unroll\n"
    "annotate C.local j unroll\n"
    "compute_at A.shared C.local k.0\n"
    "compute_at B.shared C.local k.0\n"
    "fuse A.shared d0 d1\n"
    "split A.shared d0@d1 32\n"
    "annotate A.shared d0@d1.1 threadIdx.x\n"
    "fuse B.shared d0 d1\n"
    "split B.shared d0@d1 32\n"
    "annotate B.shared d0@d1.1 threadIdx.x\n";

TEST(Threads, VirtualThreadsInterleave) {
  const te::Dag dag = dag_of("matmul:M=37,N=33,K=10");
  testing::expect_golden("lower/threads/vthread.txt",
                         ir::to_text(lower_threads(dag, kVirtual, kBeforeVectors)));
  expect_threads_agree(dag, kVirtual);
  expect_threads_agree(dag_of("matmul:M=32,N=64,K=8"), kVirtual);
}

TEST(Threads, StagesWithFewerThreadsThanTheLaunch) {
  // B is copied by 16 of 128 threads, A by one row of them.
  std::string schedule = kMatmul;
  const auto replace = [&](const std::string& from, const std::string& to) {
    schedule.replace(schedule.find(from), from.size(), to);
  };
  replace("split A.shared d0@d1 8 16\nannotate A.shared d0@d1.1 threadIdx.y\n",
          "split A.shared d0@d1 1 16\n");
  replace("split B.shared d0@d1 8 16 4\n", "split B.shared d0@d1 4 4 4\n");
  expect_threads_agree(dag_of("matmul:M=40,N=65,K=9"), schedule);
  // More threads copy than compute.
  schedule = kMatmul;
  replace("split B.shared d0@d1 8 16 4\n", "split B.shared d0@d1 8 32 2\n");
  expect_threads_agree(dag_of("matmul:M=40,N=65,K=9"), schedule);
}

TEST(Threads, EpilogueAndSeveralLaunches) {
  const std::string rows =
      "fuse C i j\nsplit C i@j 32\nannotate C i@j.0 blockIdx.x\nannotate C i@j.1 threadIdx.x\n"
      "fuse Y i j\nsplit Y i@j 64\nannotate Y i@j.0 blockIdx.x\nannotate Y i@j.1 threadIdx.x\n";
  const te::Dag dag = dag_of("dense:M=9,N=11,K=5");
  const ir::DeviceProgram program = lower_threads(dag, rows);
  ASSERT_EQ(program.launches.size(), 2);
  ASSERT_EQ(program.temporaries.size(), 1);
  EXPECT_EQ(program.launches[0].name, "C");
  EXPECT_EQ(program.launches[0].grid, (std::array<std::int64_t, 3>{4, 1, 1}));
  EXPECT_EQ(program.launches[1].block, (std::array<std::int64_t, 3>{64, 1, 1}));
  EXPECT_EQ(program.launches[1].params.back()->name, "Y");
  expect_threads_agree(dag, rows);
  // The sums in registers of the thread that uses them.
  expect_threads_agree(dag,
                       "split Y j 4\nannotate Y i blockIdx.x\nannotate Y j.0 threadIdx.x\n"
                       "compute_at C Y j.0\n");
}

std::string softmax(int rows, int threads) {
  std::string out = fmt::format(
      "split Y r {}\nsplit Y c {}\nannotate Y r.0 blockIdx.x\nannotate Y r.1 threadIdx.y\n"
      "annotate Y c.1 threadIdx.x\ncompute_inline ex\ncompute_inline inv\n",
      rows, threads);
  for (const char* stage : {"mx", "sm"}) {
    out += fmt::format("compute_at {0} Y r.1\nsplit {0} c {1}\nannotate {0} c.1 threadIdx.x\n",
                       stage, threads);
  }
  return out;
}

TEST(Threads, SoftmaxOfARowPerWarp) {
  const te::Dag dag = dag_of("softmax:R=5,C=70");
  const ir::DeviceProgram program = lower_threads(dag, softmax(4, 32));
  testing::expect_golden("lower/threads/softmax.txt", ir::to_text(program));
  EXPECT_EQ(count_barriers(program), 0);
  EXPECT_TRUE(program.launches[0].shared.empty());
  expect_threads_agree(dag, softmax(4, 32));
}

TEST(Threads, ReductionsOverThreads) {
  for (const int threads : {2, 8, 24, 32, 48, 64, 96}) {
    for (const int rows : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} threads, {} rows", threads, rows));
      expect_threads_agree(dag_of("softmax:R=7,C=101"), softmax(rows, threads));
    }
  }
  for (const char* op : {"sum", "argmax"}) {
    expect_threads_agree(dag_of(fmt::format("reduce:R=3,C=77,op={}", op).c_str()),
                         "split Y c 64\nannotate Y r blockIdx.x\nannotate Y c.1 threadIdx.x\n");
  }
  // Over the second dimension of threads, which are not neighbours.
  expect_threads_agree(dag_of("matmul:M=3,N=20,K=19"),
                       "split C j 16\nsplit C k 4\nreorder C i j.0 j.1 k.1 k.0\n"
                       "annotate C i blockIdx.x\nannotate C j.0 blockIdx.y\n"
                       "annotate C j.1 threadIdx.x\nannotate C k.1 threadIdx.y\n");
}

TEST(Threads, FactoredReduction) {
  const std::string schedule =
      "split Y c 32\nrfactor Y c.1 1\nannotate Y r blockIdx.x\nannotate Y c.1 threadIdx.x\n"
      "compute_at Y.rf Y c.1\n";
  const ir::DeviceProgram program = lower_threads(dag_of("reduce:R=4,C=100,op=sum"), schedule);
  EXPECT_NE(ir::to_text(program).find("shuffle_xor(Y.acc[0], 16)"), std::string::npos)
      << ir::to_text(program);
  expect_threads_agree(dag_of("reduce:R=4,C=100,op=sum"), schedule);
}

TEST(Threads, StageOfOneThreadNeedsNoBarrier) {
  // Each thread reads from shared memory what it stored itself.
  std::string schedule = softmax(1, 32);
  const std::string inlined = "compute_inline ex\n";
  schedule.replace(schedule.find(inlined), inlined.size(),
                   "cache_write ex shared\ncompute_inline ex\ncompute_at ex.shared Y r.1\n"
                   "split ex.shared c 32\nannotate ex.shared c.1 threadIdx.x\n");
  const te::Dag dag = dag_of("softmax:R=3,C=70");
  EXPECT_EQ(count_barriers(lower_threads(dag, schedule)), 0);
  expect_threads_agree(dag, schedule);
}

TEST(Threads, SplitKInTwoLaunches) {
  const std::string schedule =
      "split C k 8\nrfactor C k.0 0\n"
      "split C.rf j 16\nannotate C.rf k.0 blockIdx.z\nannotate C.rf i blockIdx.y\n"
      "annotate C.rf j.0 blockIdx.x\nannotate C.rf j.1 threadIdx.x\n"
      "fuse C i j\nsplit C i@j 32\nannotate C i@j.0 blockIdx.x\nannotate C i@j.1 threadIdx.x\n";
  const te::Dag dag = dag_of("matmul:M=5,N=19,K=29");
  const ir::DeviceProgram program = lower_threads(dag, schedule);
  ASSERT_EQ(program.launches.size(), 2);
  EXPECT_EQ(program.launches[0].name, "C.rf");
  EXPECT_EQ(program.launches[0].grid[2], 4);
  expect_threads_agree(dag, schedule);
}

TEST(Pipeline, CopiesRunAhead) {
  const te::Dag dag = dag_of("matmul:M=129,N=65,K=33");
  const std::string schedule = kMatmul + "pragma C.local k.0 pipeline 3\n";
  testing::expect_golden(
      "lower/threads/pipeline.txt",
      ir::to_text(lower_threads(dag, schedule,
                                {.print_after = {}, .stop_after = "pipeline_loops", .skip = {}})));
  const ir::DeviceProgram program = lower_threads(dag, schedule);
  EXPECT_EQ(count_barriers(program), 1);
  EXPECT_NE(ir::to_text(program).find("async_copy("), std::string::npos);
  expect_threads_agree(dag, schedule);
}

TEST(Pipeline, CopiesStandBetweenUnrolledUses) {
  const std::string schedule =
      kMatmul + "annotate C.local k.1 unroll\npragma C.local k.0 pipeline 3\n";
  const te::Dag dag = dag_of("matmul:M=64,N=64,K=64");
  const std::string text = ir::to_text(lower_threads(
      dag, schedule, {.print_after = {}, .stop_after = "pipeline_loops", .skip = {}}));
  const std::size_t barrier = text.rfind("barrier");
  EXPECT_LT(text.find("C.local[", barrier), text.find("A.shared[(", barrier)) << text;
  for (const int k : {8, 33, 64}) {
    expect_threads_agree(dag_of(fmt::format("matmul:M=33,N=64,K={}", k).c_str()), schedule);
  }
}

// Two warps share the steps of 16 x 32 sums; each copies its own.
const std::string kTwoWarps =
    "split C k 2 8\n"
    "rfactor C k.1 0\n"
    "cache_write C.rf shared\n"
    "compute_inline C.rf\n"
    "cache_read X shared C.rf.shared\n"
    "cache_read W shared C.rf.shared\n"
    "split Y i 16\n"
    "split Y j 8 4\n"
    "reorder Y i.0 j.0 i.1 j.1 j.2\n"
    "fuse Y i.0 j.0\n"
    "annotate Y i.0@j.0 blockIdx.x\n"
    "fuse Y i.1 j.1\n"
    "split Y i.1@j.1 64\n"
    "annotate Y i.1@j.1.0 unroll\n"
    "annotate Y i.1@j.1.1 threadIdx.x\n"
    "annotate Y j.2 vectorize\n"
    "compute_at C.rf.shared Y i.0@j.0\n"
    "compute_at C Y i.1@j.1.1\n"
    "reorder C k.1 i j\n"
    "annotate C k.1 unroll\n"
    "annotate C i unroll\n"
    "annotate C j vectorize\n"
    "split C.rf.shared i 2 2 4\n"
    "split C.rf.shared j 8 4\n"
    "reorder C.rf.shared i.0 j.0 k.1 i.1 j.1 i.2 k.0 k.2 i.3 j.2\n"
    "annotate C.rf.shared k.2 unroll\n"
    "annotate C.rf.shared i.3 unroll\n"
    "fuse C.rf.shared k.1 i.1 j.1 i.2\n"
    "annotate C.rf.shared k.1@i.1@j.1@i.2 threadIdx.x\n"
    "annotate C.rf.shared j.2 vectorize\n"
    "compute_at X.shared C.rf.shared k.0\n"
    "pragma C.rf.shared k.0 pipeline 3\n"
    "layout X.shared d1 d0\n"
    "storage_align X.shared 1 32 4\n"
    "split X.shared d0 4\n"
    "split X.shared d1 8\n"
    "split X.shared d1.1 8\n"
    "reorder X.shared d1.0 d0.0 d1.1.0 d0.1 d1.1.1\n"
    "fuse X.shared d0.0 d1.1.0 d0.1 d1.1.1\n"
    "split X.shared d0.0@d1.1.0@d0.1@d1.1.1 32\n"
    "reorder X.shared d0.0@d1.1.0@d0.1@d1.1.1.0 d1.0 d0.0@d1.1.0@d0.1@d1.1.1.1\n"
    "fuse X.shared d1.0 d0.0@d1.1.0@d0.1@d1.1.1.1\n"
    "annotate X.shared d0.0@d1.1.0@d0.1@d1.1.1.0 unroll\n"
    "annotate X.shared d1.0@d0.0@d1.1.0@d0.1@d1.1.1.1 threadIdx.x\n"
    "compute_at W.shared C.rf.shared k.0\n"
    "layout W.shared d1 d0\n";

const std::string kOwnCopies = kTwoWarps +
                               "split W.shared d1 8\n"
                               "reorder W.shared d1.0 d1.1 d0\n"
                               "fuse W.shared d1.1 d0\n"
                               "split W.shared d1.1@d0 32 4\n"
                               "reorder W.shared d1.1@d0.0 d1.0 d1.1@d0.1 d1.1@d0.2\n"
                               "fuse W.shared d1.0 d1.1@d0.1\n"
                               "annotate W.shared d1.1@d0.0 unroll\n"
                               "annotate W.shared d1.0@d1.1@d0.1 threadIdx.x\n"
                               "annotate W.shared d1.1@d0.2 vectorize\n";

TEST(Pipeline, ThreadsWaitForThoseThatCopyForThem) {
  const te::Dag dag = dag_of("dense:M=32,N=64,K=64");
  const std::string text = ir::to_text(lower_threads(dag, kOwnCopies));
  EXPECT_NE(text.find("async_wait(1, 32)"), std::string::npos) << text;
  EXPECT_EQ(count_barriers(lower_threads(dag, kOwnCopies)), 1) << text;  // before sums are added
  expect_threads_agree(dag, kOwnCopies);
  // The copies of a warp are used by the other.
  const std::string across =
      kTwoWarps +
      "reorder W.shared d1 d0\nfuse W.shared d1 d0\nsplit W.shared d1@d0 64 4\n"
      "annotate W.shared d1@d0.1 threadIdx.x\n"
      "annotate W.shared d1@d0.2 vectorize\n";
  const std::string shared = ir::to_text(lower_threads(dag, across));
  EXPECT_EQ(shared.find("async_wait(1, 32)"), std::string::npos) << shared;
  expect_threads_agree(dag, across);
}

TEST(Pipeline, AnyDepthAndLength) {
  for (const int depth : {2, 3, 5}) {
    for (const int k : {1, 8, 16, 24, 41}) {
      SCOPED_TRACE(fmt::format("depth {}, K {}", depth, k));
      expect_threads_agree(dag_of(fmt::format("matmul:M=33,N=64,K={}", k).c_str()),
                           kMatmul + fmt::format("pragma C.local k.0 pipeline {}\n", depth));
    }
  }
}

TEST(Pipeline, OfVirtualThreadsAndOfConvolutions) {
  expect_threads_agree(dag_of("matmul:M=37,N=33,K=10"),
                       kVirtual + "pragma C.local k.0 pipeline 2\n");
  expect_threads_agree(dag_of("conv2d:N=1,H=9,W=7,CI=5,CO=7,KH=3,KW=3,P=1"),
                       kConv + "pragma Y.local ci.0 pipeline 3\n");
}

TEST(Pipeline, InsideAnotherLoopWaitsBeforeItStartsAgain) {
  // Each block computes several tiles one after the other.
  std::string schedule = kMatmul + "pragma C.local k.0 pipeline 3\n";
  const std::string bound = "annotate C j.0 blockIdx.x\n";
  schedule.erase(schedule.find(bound), bound.size());
  for (const int k : {32, 24, 8}) {
    const te::Dag dag = dag_of(fmt::format("matmul:M=33,N=140,K={}", k).c_str());
    EXPECT_EQ(count_barriers(lower_threads(dag, schedule)), k == 24 ? 1 : 2);
    expect_threads_agree(dag, schedule);
  }
}

TEST(Pipeline, WhatIsNoPlainCopyIsStored) {
  // One byte is too little for an asynchronous copy.
  const te::Dag dag = dag_of("matmul:M=33,N=65,K=20,dtype=i8");
  std::string schedule = kMatmul + "pragma C.local k.0 pipeline 2\n";
  const std::string wide = "annotate B.shared d0@d1.3 vectorize\n";
  schedule.erase(schedule.find(wide), wide.size());
  const std::string text = ir::to_text(lower_threads(dag, schedule));
  EXPECT_EQ(text.find("async"), std::string::npos) << text;
  expect_threads_agree(dag, schedule);
}

// Virtual threads, a transposed tile of A, vector reads from shared memory into registers, copies
// that run ahead, vector stores: what a library does for large products.
const std::string kLibrary =
    "cache_write C local\n"
    "cache_read A shared C.local\n"
    "cache_read B shared C.local\n"
    "cache_read A.shared local C.local\n"
    "cache_read B.shared local C.local\n"
    "split C i 2 4 4\n"
    "split C j 2 8 4\n"
    "reorder C i.0 j.0 i.1 j.1 i.2 j.2 i.3 j.3\n"
    "annotate C i.0 blockIdx.y\n"
    "annotate C j.0 blockIdx.x\n"
    "annotate C i.1 vthread\n"
    "annotate C j.1 vthread\n"
    "annotate C i.2 threadIdx.y\n"
    "annotate C j.2 threadIdx.x\n"
    "annotate C i.3 unroll\n"
    "annotate C j.3 vectorize\n"
    "compute_at C.local C j.2\n"
    "split C.local k 8\n"
    "reorder C.local k.0 k.1 i j\n"
    "annotate C.local k.1 unroll\n"
    "annotate C.local i unroll\n"
    "annotate C.local j unroll\n"
    "pragma C.local k.0 pipeline 2\n"
    "compute_at A.shared C.local k.0\n"
    "compute_at B.shared C.local k.0\n"
    "compute_at A.shared.local C.local k.1\n"
    "compute_at B.shared.local C.local k.1\n"
    "annotate A.shared.local d0 vectorize\n"
    "annotate B.shared.local d1 vectorize\n"
    "layout A.shared d1 d0\n"
    "fuse A.shared d0 d1\n"
    "split A.shared d0@d1 4 8\n"
    "annotate A.shared d0@d1.1 threadIdx.y\n"
    "annotate A.shared d0@d1.2 threadIdx.x\n"
    "fuse B.shared d0 d1\n"
    "split B.shared d0@d1 4 8 4\n"
    "annotate B.shared d0@d1.1 threadIdx.y\n"
    "annotate B.shared d0@d1.2 threadIdx.x\n"
    "annotate B.shared d0@d1.3 vectorize\n";

TEST(Threads, ProductAsALibraryWritesIt) {
  const te::Dag dag = dag_of("matmul:M=64,N=128,K=32");
  testing::expect_golden(
      "lower/threads/library.txt",
      ir::to_text(lower_threads(dag, kLibrary,
                                {.print_after = {}, .stop_after = "pipeline_loops", .skip = {}})));
  const std::string text = ir::to_text(lower_threads(dag, kLibrary));
  // Every access of memory by the inner loop and at the end moves 16 bytes.
  EXPECT_NE(text.find("= A.shared[ramp("), std::string::npos) << text;
  EXPECT_NE(text.find("async_copy(B.shared[ramp("), std::string::npos) << text;
  expect_threads_agree(dag, kLibrary);
  expect_threads_agree(dag_of("matmul:M=61,N=67,K=29"), kLibrary);
  expect_threads_agree(dag_of("matmul:M=3,N=2,K=1"), kLibrary);
}

// A product of doubled elements: X goes to shared memory, its double too, and B.
te::Dag doubled() {
  te::DagBuilder b("doubled");
  const ir::Buffer x = b.input("X", DType::kF32, {7, 20});
  const ir::Buffer y = b.input("B", DType::kF32, {20, 9});
  const ir::Buffer p = b.compute("P", {{"i", 7}, {"k", 20}},
                                 [&](const te::Indices& i) { return te::at(x, i) * te::at(x, i); });
  return b.build({b.reduce("C", te::Reducer::kSum, {{"i", 7}, {"j", 9}}, {{"k", 20}},
                           [&](const te::Indices& i, const te::Indices& k) {
                             return te::at(p, {i[0], k[0]}) * te::at(y, {k[0], i[1]});
                           })});
}

std::string chain(bool with_b) {
  std::string out =
      "cache_read X shared P\ncache_write P shared\ncompute_inline P\nannotate C i blockIdx.x\n"
      "annotate C j threadIdx.x\nsplit C k 8\ncompute_at P.shared C k.0\n"
      "compute_at X.shared C k.0\nsplit P.shared k 4\nannotate P.shared k.1 threadIdx.x\n"
      "split X.shared d1 8\nannotate X.shared d1.1 threadIdx.x\n";
  if (with_b) {
    out +=
        "cache_read B shared C\ncompute_at B.shared C k.0\nfuse B.shared d0 d1\n"
        "split B.shared d0@d1 9\nannotate B.shared d0@d1.1 threadIdx.x\n";
  }
  return out;
}

TEST(Threads, SharedStagesThatReadSharedStages) {
  // The one between the two copies also keeps the next product from overtaking this sum.
  EXPECT_EQ(count_barriers(lower_threads(doubled(), chain(false))), 2);
  expect_threads_agree(doubled(), chain(false));
  expect_threads_agree(doubled(), chain(true));
}

TEST(Pipeline, RefusedWithAReason) {
  const te::Dag dag = dag_of("matmul:M=40,N=65,K=33");
  expect_threads_refused(dag, kMatmul + "pragma C.local k.1 pipeline 2\n",
                         "loop k.1 cannot be pipelined: it copies nothing to shared memory");
  std::string deep = kMatmul + "pragma C.local k.0 pipeline 2\n";
  const std::string at = "compute_at B.shared C.local k.0";
  deep.replace(deep.find(at), at.size(), "compute_at B.shared C.local k.1");
  expect_threads_refused(dag, deep,
                         "loop k.0 cannot be pipelined: threads wait for each other inside");
  expect_threads_refused(doubled(), chain(true) + "pragma C k.0 pipeline 2\n",
                         "loop k.0 cannot be pipelined: a copy follows a use");
  expect_threads_refused(doubled(), chain(false) + "pragma C k.0 pipeline 2\n",
                         "loop k.0 cannot be pipelined: threads wait for each other inside");
  expect_refused(dag, "pragma C k pipeline 2\n",
                 "stage C has a pipelined loop, but the target is a CPU");
}

TEST(Threads, RandomTilesOfRandomSizes) {
  Rng rng(11);
  const auto pick = [&](std::vector<int> of) {
    return of[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(of.size())))];
  };
  for (int trial = 0; trial < 40; ++trial) {
    const int ti = pick({1, 2, 4, 5}), tj = pick({2, 4, 8}), ri = pick({1, 2, 3}),
              rj = pick({1, 2, 4}), vi = pick({1, 2}), k = pick({1, 2, 3, 8});
    const std::string spec = fmt::format("matmul:M={},N={},K={}", 1 + rng.below(23),
                                         1 + rng.below(23), 1 + rng.below(13));
    std::string schedule = fmt::format(
        "cache_write C local\nsplit C i {} {} {}\nsplit C j {} {}\n"
        "reorder C i.0 j.0 i.1 i.2 j.1 i.3 j.2\nannotate C i.0 blockIdx.y\n"
        "annotate C j.0 blockIdx.x\nannotate C i.1 vthread\nannotate C i.2 threadIdx.y\n"
        "annotate C j.1 threadIdx.x\ncompute_at C.local C j.1\nsplit C.local k {}\n"
        "reorder C.local k.0 k.1 i j\nannotate C.local i unroll\n",
        vi, ti, ri, tj, rj, k);
    const bool pipelined = rng.below(3) == 0;
    if (pipelined) schedule += fmt::format("pragma C.local k.0 pipeline {}\n", pick({2, 3, 4}));
    for (const char* in : {"A", "B"}) {
      if (in[0] == 'B' && rng.below(4) == 0) continue;
      schedule += fmt::format(
          "cache_read {0} shared C.local\ncompute_at {0}.shared C.local {1}\n"
          "fuse {0}.shared d0 d1\nsplit {0}.shared d0@d1 {2} {3} {4}\n"
          "annotate {0}.shared d0@d1.1 threadIdx.y\nannotate {0}.shared d0@d1.2 threadIdx.x\n"
          "annotate {0}.shared d0@d1.3 vectorize\n",
          in, pipelined || rng.below(2) == 0 ? "k.0" : "k.1", pick({ti, 1, 3}), pick({tj, 4}),
          pick({1, 2, 4}));
      if (rng.below(3) == 0) schedule += fmt::format("storage_align {}.shared 0 4 1\n", in);
    }
    SCOPED_TRACE(spec);
    expect_threads_agree(dag_of(spec.c_str()), schedule);
  }
}

// Every stage as a launch of its own, one element per thread.
std::string element_per_thread(const te::Dag& dag) {
  std::string out;
  for (const te::Op& op : dag.ops) {
    std::vector<std::string> axes;
    for (const te::Axis& a : op.axes) axes.push_back(a.var.as<ir::Var>()->name);
    if (axes.empty()) continue;
    if (axes.size() > 1) out += fmt::format("fuse {} {}\n", op.name, fmt::join(axes, " "));
    const std::string loop = fmt::format("{}", fmt::join(axes, "@"));
    out += fmt::format(
        "split {0} {1} 32\nannotate {0} {1}.0 blockIdx.x\nannotate {0} {1}.1 threadIdx.x\n",
        op.name, loop);
  }
  return out;
}

TEST(Threads, EveryKindOfOperation) {
  for (const char* spec :
       {"matmul:M=5,N=7,K=9", "matmul:M=5,N=7,K=9,dtype=f16", "bmm:B=2,M=3,N=5,K=4",
        "dense:M=3,N=5,K=4", "conv1d:N=1,W=7,CI=3,CO=5,KW=3,P=1",
        "conv2d:N=1,H=5,W=7,CI=3,CO=5,KH=3,KW=3,P=1",
        "conv_transpose2d:N=1,H=3,W=4,CI=3,CO=2,KH=3,KW=3,S=2",
        "depthwise:N=1,H=5,W=7,C=3,KH=3,KW=3,P=1", "maxpool2d:N=1,H=6,W=5,C=3,KH=3,KW=3,P=1",
        "avgpool2d:N=1,H=6,W=5,C=3,KH=2,KW=2", "globalavgpool:N=2,H=3,W=5,C=3", "softmax:R=3,C=37",
        "layernorm:R=3,C=37", "rmsnorm:R=3,C=37", "eltwise:N=70,fn=gelu", "reduce:R=3,C=37,op=max",
        "reduce:R=3,C=37,op=argmin", "transpose:A=2,B=5,C=9,perm=021"}) {
    SCOPED_TRACE(spec);
    const auto op = te::parse_op_spec(spec);
    ASSERT_TRUE(op.ok()) << op.error().message;
    const auto dag = te::make_dag(*op);
    ASSERT_TRUE(dag.ok()) << dag.error().message;
    expect_threads_agree(*dag, element_per_thread(*dag));
  }
}

TEST(Threads, StageWithoutAxesRunsInOneThread) {
  te::DagBuilder b("norm");
  const ir::Buffer x = b.input("X", DType::kF32, {100});
  const ir::Buffer sum = b.reduce(
      "S", te::Reducer::kSum, {}, {{"k", 100}},
      [&](const te::Indices&, const te::Indices& k) { return te::at(x, k) * te::at(x, k); });
  const ir::Buffer root = b.compute("R", {}, [&](const te::Indices&) {
    return ir::call(ir::Intrinsic::kSqrt, {te::at(sum, {})});
  });
  const te::Dag dag = b.build({root});
  expect_threads_agree(dag, "");
  expect_threads_agree(dag, "split S k 32\nannotate S k.1 threadIdx.x\n");
}

TEST(Threads, HalvesAreRoundedWhereTheyAreStored) {
  te::DagBuilder b("chain");
  const ir::Buffer x = b.input("X", DType::kF16, {64});
  const auto scaled = [&](const ir::Buffer& from, const char* name, double by) {
    return b.compute(name, {{"i", 64}}, [&](const te::Indices& i) {
      return ir::cast(DType::kF16,
                      ir::cast(DType::kF32, te::at(from, i)) * ir::imm(DType::kF32, by));
    });
  };
  const ir::Buffer y = scaled(x, "Y", 1.1), z = scaled(y, "Z", 1.3);
  const te::Dag dag = b.build({z});
  const auto roundings = [&](const std::string& schedule) {
    int found = 0;
    const ir::DeviceProgram program = lower_threads(dag, schedule);
    for (const ir::Launch& launch : program.launches) {
      ir::for_each_expr(launch.body, [&](const ir::Expr& e) {
        found += e.as<ir::Cast>() != nullptr && e.dtype() == DType::kF16 ? 1 : 0;
      });
    }
    EXPECT_EQ(run_threads(dag, program), "");
    return found;
  };
  const std::string threads = "annotate Z i threadIdx.x\n";
  EXPECT_EQ(roundings("compute_inline Y\n" + threads), 1);
  EXPECT_EQ(roundings(threads + "annotate Y i threadIdx.x\n"), 2);
}

TEST(Threads, RefusedWithAReason) {
  const te::Dag dag = dag_of("matmul:M=16,N=16,K=16");
  const std::string bound = "annotate C i blockIdx.x\nannotate C j threadIdx.x\n";
  const std::string copy = bound + "cache_read A shared C\ncompute_at A.shared C i\n";
  expect_threads_refused(dag, "", "no loop of stage C is bound to blocks or threads");
  expect_threads_refused(dag, "annotate C j blockIdx.x\n",
                         "loop j of C is bound to blocks, but runs inside loop i");
  expect_threads_refused(dag, "annotate C i threadIdx.x\nannotate C j threadIdx.x\n",
                         "loop j of C: another loop has the same binding");
  expect_threads_refused(dag, bound + "annotate C i parallel\n",
                         "loop i of C is parallel: on a GPU, bind it to blocks or threads");
  expect_threads_refused(dag, copy,
                         "stage A.shared is shared, but none of its loops is bound to threads");
  expect_threads_refused(
      dag, copy + "annotate A.shared d1 blockIdx.y\n",
      "loop d1 of A.shared is bound to blocks, but A.shared is computed inside C");
  expect_threads_refused(dag, bound + "cache_read A shared C\nannotate A.shared d0 blockIdx.x\n",
                         "stage A.shared is shared, but runs as a launch of its own");
  expect_threads_refused(
      dag,
      bound + "cache_read A local C\ncompute_at A.local C j\nannotate A.local d1 threadIdx.x\n",
      "loop d1 of A.local is bound to threads, but A.local is not shared");
  expect_threads_refused(dag,
                         "annotate C i blockIdx.x\nannotate C j vectorize\ncache_read A shared C\n"
                         "compute_at A.shared C j\nannotate A.shared d1 threadIdx.x\n",
                         "stage A.shared runs inside vectorized loop j of C");
  expect_threads_refused(dag, "annotate C i vectorize\nannotate C j threadIdx.x\n",
                         "thread loop j of C runs inside vectorized loop i");
  expect_threads_refused(
      dag, bound + "split C k 4\nannotate C k.0 threadIdx.y\nannotate C k.1 threadIdx.z\n",
      "stage C reduces over more than one dimension of threads");
  expect_threads_refused(
      dag, "annotate C i vthread\nannotate C j threadIdx.x\nannotate C k threadIdx.y\n",
      "stage C reduces over threads, but runs inside virtual threads of C");
  expect_threads_refused(dag,
                         "annotate C i blockIdx.x\nannotate C k threadIdx.x\nreorder C i k j\n",
                         "stage C: loops over its axes inside the reduction over threads");
  expect_threads_refused(dag_of("dense:M=8,N=8192,K=2"),
                         "annotate Y i blockIdx.x\nannotate Y j threadIdx.x\ncompute_at C Y i\n",
                         "stage C needs 32768 bytes in every thread");
  expect_threads_refused(dag, bound + "tensorize C k dot4\n",
                         "loop k of C: dot4 is not an instruction of GPUs");
  expect_refused(dag, bound, "bound to GPU threads, but the target is a CPU");
}

std::string limit_error(const LaunchLimits& limits) {
  const auto ok = check_limits(lower_threads(dag_of("matmul:M=64,N=128,K=16"), kMatmul), limits);
  if (ok.ok()) return "";
  EXPECT_EQ(ok.error().code, ErrorCode::kIllegalSchedule);
  return ok.error().message;
}

TEST(Limits, NameWhatIsTooLarge) {
  EXPECT_EQ(limit_error({}), "");
  EXPECT_EQ(limit_error({.threads = 100}),
            "launch C needs 128 threads in a block; the device has 100");
  EXPECT_EQ(limit_error({.block = {8, 1024, 64}}),
            "launch C needs 16 threads in dimension x; the device has 8");
  EXPECT_EQ(limit_error({.grid = {1, 1, 1}}),
            "launch C needs 2 blocks in dimension x; the device has 1");
  EXPECT_EQ(limit_error({.shared_bytes = 3000}),
            "launch C needs 3072 bytes of shared memory; the device has 3000");
  EXPECT_EQ(limit_error({.thread_registers = 32}),
            "launch C needs 40 registers in a thread; the device has 32");
  EXPECT_EQ(limit_error({.registers = 4096}),
            "launch C needs 5120 registers in a block; the device has 4096");
}

TEST(Limits, LoweringForATargetKeepsThem) {
  const te::Dag dag = dag_of("matmul:M=64,N=128,K=16");
  const auto steps = schedule::schedule_from_text(kMatmul).value();
  target::Target small = target::find_target("h200").value();
  EXPECT_TRUE(lower(dag, steps, small).ok());
  small.gpu.block_threads = 100;
  const auto refused = lower(dag, steps, small);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kIllegalSchedule);
  EXPECT_EQ(refused.error().message, "launch C needs 128 threads in a block; the device has 100");
  EXPECT_TRUE(lower_device(dag, steps).ok()) << "to look at";
}

TEST(Limits, ComeFromTheTarget) {
  const LaunchLimits h200 = launch_limits(target::find_target("h200").value());
  EXPECT_EQ(h200.threads, 1024);
  EXPECT_EQ(h200.shared_bytes, 227 * 1024);
  EXPECT_EQ(h200.thread_registers, 255);
  EXPECT_EQ(h200.registers, 65536);
  // A pipeline that fits there does not fit an older device.
  const ir::DeviceProgram deep =
      lower_threads(dag_of("matmul:M=512,N=512,K=512"),
                    "cache_write C local\ncache_read A shared C.local\nsplit C i 16 8\n"
                    "split C j 16 8\nreorder C i.0 j.0 i.1 j.1 i.2 j.2\n"
                    "annotate C i.0 blockIdx.y\nannotate C j.0 blockIdx.x\n"
                    "annotate C i.1 threadIdx.y\nannotate C j.1 threadIdx.x\n"
                    "compute_at C.local C j.1\nsplit C.local k 64\n"
                    "reorder C.local k.0 k.1 i j\ncompute_at A.shared C.local k.0\n"
                    "pragma C.local k.0 pipeline 4\nfuse A.shared d0 d1\n"
                    "split A.shared d0@d1 16 16 4\nannotate A.shared d0@d1.1 threadIdx.y\n"
                    "annotate A.shared d0@d1.2 threadIdx.x\n");
  EXPECT_TRUE(check_limits(deep, h200).ok());
  EXPECT_EQ(check_limits(deep, launch_limits(target::find_target("t4").value())).error().message,
            "launch C needs 131072 bytes of shared memory; the device has 65536");
}

}  // namespace
}  // namespace tessera::lower
