// What threads may not do, and that the interpreter says so.
#include <gtest/gtest.h>

#include "tessera/lang/interp/interp.h"
#include "tessera/lang/ir/text.h"

namespace tessera::interp {
namespace {

// One launch of 2 blocks of 4 threads over A: f32[8] -> B: f32[8] with S: f32[8] shared. The result
// is the error, or B.
std::string run_body(const std::string& body) {
  const auto program = ir::parse_device_program(
      "device p(A: f32[8]) -> (B: f32[8]) {\n"
      "launch k(A) -> (B) { grid bx in 2, by in 1, bz in 1 block tx in 4, ty in 1, tz in 1\n"
      "shared S: f32[8]\n" +
      body + "}}");
  if (!program.ok()) return program.error().message;
  std::vector<HostTensor> params = {HostTensor(DType::kF32, {8}), HostTensor(DType::kF32, {8})};
  for (std::int64_t i = 0; i < 8; ++i) params[0].set_float(i, static_cast<double>(i));
  if (const auto ran = run(*program, params); !ran.ok()) {
    EXPECT_EQ(ran.error().code, ErrorCode::kRunFailed);
    return ran.error().message;
  }
  std::string out;
  for (std::int64_t i = 0; i < 8; ++i)
    out += fmt::format("{}{}", i > 0 ? " " : "", params[1].get_float(i));
  return out;
}

constexpr const char* kReverse = "0 1 2 3 4 5 6 7";

TEST(InterpLaunch, ThreadsExchangeThroughSharedMemory) {
  EXPECT_EQ(run_body("S[tx] = A[bx * 4 + tx] barrier B[bx * 4 + tx] = S[3 - tx]"),
            "3 2 1 0 7 6 5 4");
  EXPECT_EQ(run_body("B[bx * 4 + tx] = A[bx * 4 + tx]"), kReverse);
}

TEST(InterpLaunch, ReportsRacesBetweenThreads) {
  EXPECT_EQ(run_body("S[tx] = A[tx] B[bx * 4 + tx] = S[3 - tx]"),
            "k: block 0, thread 0: race: read of element 3 of S, which thread 3 also touches");
  // The same value does not make it right.
  EXPECT_EQ(run_body("S[0] = 1.0"),
            "k: block 0, thread 1: race: store of element 0 of S, which thread 0 also touches");
  EXPECT_EQ(
      run_body(
          "S[tx] = A[tx] barrier for i in 2 { B[bx * 4 + tx] = S[3 - tx] S[tx] = 1.0 barrier }"),
      "k: block 0, thread 0: race: store of element 0 of S, which thread 3 also touches");
  // Also in device memory, and also across iterations of a loop.
  EXPECT_EQ(run_body("B[bx * 4 + tx] = 1.0 if tx == 0 { B[bx * 4] = B[bx * 4 + 1] }"),
            "k: block 0, thread 0: race: read of element 1 of B, which thread 1 also touches");
  EXPECT_EQ(run_body("for i in 2 { S[tx + i] = A[tx] }"),
            "k: block 0, thread 0: race: store of element 1 of S, which thread 1 also touches");
}

TEST(InterpLaunch, AllThreadsOfAWarpMultiplyTogether) {
  // Four threads are no warp.
  EXPECT_EQ(run_body("alloc c: f32[4] stack { c[ramp(0, 1, 4)] = mma(broadcast(0.0, 4), "
                     "broadcast(1.0f16, 8), broadcast(1.0f16, 4)) }"),
            "k: block 0, thread 0: exchange with thread 4, which does not take part");
  EXPECT_EQ(run_body("S[tx] = A[tx] alloc c: f32[4] stack { c[ramp(0, 1, 4)] = "
                     "matrix_rows(S[ramp(tx, 1, 4)]) }"),
            "k: block 0, thread 0: exchange with thread 8, which does not take part");
}

TEST(InterpLaunch, ReportsRacesBetweenBlocks) {
  EXPECT_EQ(run_body("B[tx] = 1.0"),
            "k: block 1, thread 0: race: store of element 0 of B, which block 0 also touches");
  EXPECT_EQ(run_body("B[bx * 4 + tx] = 1.0 if bx == 1 { S[tx] = B[tx] }"),
            "k: block 1, thread 0: race: read of element 0 of B, which block 0 also touches");
}

TEST(InterpLaunch, ReportsDivergentBarriers) {
  EXPECT_EQ(run_body("if tx < 3 { barrier }"),
            "k: block 0, thread 0: divergent barrier: 3 of 4 threads arrive");
  EXPECT_EQ(run_body("for i in tx { barrier }"),
            "k: block 0, thread 1: divergent barrier: 3 of 4 threads arrive");
  EXPECT_EQ(run_body("if bx < 1 { barrier } B[bx * 4 + tx] = A[bx * 4 + tx]"), kReverse);
}

TEST(InterpLaunch, ReportsAccessesOutsideAndUndefinedMemory) {
  EXPECT_EQ(run_body("B[bx * 4 + tx] = A[bx * 5 + tx]"),
            "k: block 1, thread 3: out-of-bounds read of A[8], shape 8");
  EXPECT_EQ(run_body("S[tx + 5] = 1.0"),
            "k: block 0, thread 3: out-of-bounds store of S[8], shape 8");
  // Shared memory does not outlive a block.
  EXPECT_EQ(run_body("if bx == 0 { S[tx] = 1.0 } B[bx * 4 + tx] = S[tx]"),
            "k: block 1, thread 0: read of undefined element 0 of S");
  EXPECT_EQ(run_body("alloc t: f32[1] stack { if tx < 3 { t[0] = 1.0 } B[bx * 4 + tx] = t[0] }"),
            "k: block 0, thread 3: read of undefined element 0 of t");
}

TEST(InterpLaunch, ShufflesExchangeRegisters) {
  EXPECT_EQ(run_body("B[bx * 4 + tx] = shuffle_xor(A[bx * 4 + tx], 1)"), "1 0 3 2 5 4 7 6");
  EXPECT_EQ(run_body("alloc t: f32[1] stack { t[0] = A[bx * 4 + tx] "
                     "t[0] = t[0] + shuffle_xor(t[0], 2) t[0] = t[0] + shuffle_xor(t[0], 1) "
                     "B[bx * 4 + tx] = t[0] }"),
            "6 6 6 6 22 22 22 22");
  EXPECT_EQ(run_body("if tx < 3 { B[bx * 4 + tx] = shuffle_xor(A[tx], 1) }"),
            "k: block 0, thread 2: exchange with thread 3, which does not take part");
  EXPECT_EQ(run_body("B[bx * 4 + tx] = shuffle_xor(A[tx], 4)"),
            "k: block 0, thread 0: exchange with thread 4, which does not take part");
}

TEST(InterpLaunch, AsynchronousCopiesArriveWhenWaitedFor) {
  const std::string copy = "eval async_copy(S[tx], A[bx * 4 + tx]) eval async_commit() ";
  EXPECT_EQ(run_body(copy + "eval async_wait(0) barrier B[bx * 4 + tx] = S[3 - tx]"),
            "3 2 1 0 7 6 5 4");
  EXPECT_EQ(run_body(copy + "barrier B[bx * 4 + tx] = S[tx]"),
            "k: block 0, thread 0: read of element 0 of S before the copy to it was waited for");
  // One group may stay open: not this one.
  EXPECT_EQ(run_body(copy + "eval async_wait(1) barrier B[bx * 4 + tx] = S[tx]"),
            "k: block 0, thread 0: read of element 0 of S before the copy to it was waited for");
  EXPECT_EQ(run_body(copy + "eval async_copy(S[tx + 4], A[tx]) eval async_commit() "
                            "eval async_wait(1) B[bx * 4 + tx] = S[tx]"),
            kReverse);
  EXPECT_EQ(run_body(copy + "eval async_wait(0) B[bx * 4 + tx] = S[3 - tx]"),
            "k: block 0, thread 0: race: read of element 3 of S, which thread 3 also touches");
  EXPECT_EQ(run_body("S[tx] = 1.0 " + copy + copy + "eval async_wait(0)"),
            "k: block 0, thread 0: store of element 0 of S before the copy to it was waited for");
  EXPECT_EQ(run_body("S[tx] = 1.0 barrier B[bx * 4 + tx] = S[3 - tx] " + copy),
            "k: block 0, thread 0: race: store of element 0 of S, which thread 3 also touches");
}

// 96 threads over A: f32[96] -> B: f32[96] with S: f32[96] shared: the error, or "ok".
std::string run_warps(const std::string& body) {
  const auto program = ir::parse_device_program(
      "device p(A: f32[96]) -> (B: f32[96]) {\n"
      "launch k(A) -> (B) { grid bx in 1, by in 1, bz in 1 block tx in 96, ty in 1, tz in 1\n"
      "shared S: f32[96]\n" +
      body + "}}");
  if (!program.ok()) return program.error().message;
  std::vector<HostTensor> params = {HostTensor(DType::kF32, {96}), HostTensor(DType::kF32, {96})};
  const auto ran = run(*program, params);
  return ran.ok() ? "ok" : ran.error().message;
}

TEST(InterpLaunch, GroupsOfThreadsWaitForThemselves) {
  const std::string store = "S[tx] = A[tx] ", wait = "eval async_wait(0, 32) ";
  const std::string reversed = "B[tx] = S[tx // 32 * 32 + 31 - tx % 32] ";
  EXPECT_EQ(run_warps(store + wait + reversed), "ok");
  EXPECT_EQ(run_warps("eval async_copy(S[tx], A[tx]) eval async_commit() " + wait + reversed),
            "ok");
  EXPECT_EQ(run_warps(store + reversed),
            "k: block 0, thread 0: race: read of element 31 of S, which thread 31 also touches");
  EXPECT_EQ(run_warps(store + wait + "B[tx] = S[95 - tx]"),
            "k: block 0, thread 0: race: read of element 95 of S, which thread 95 also touches");
  // Also after more of them, but not after a barrier of all.
  EXPECT_EQ(run_warps(store + wait + wait + "B[tx] = S[95 - tx]"),
            "k: block 0, thread 0: race: read of element 95 of S, which thread 95 also touches");
  EXPECT_EQ(run_warps(store + wait + "barrier B[tx] = S[95 - tx]"), "ok");
  // Reads are waited for, too, and those of other groups are not.
  EXPECT_EQ(run_warps(store + wait + reversed + wait + store), "ok");
  EXPECT_EQ(run_warps(store + "barrier B[tx] = S[95 - tx] " + wait + store),
            "k: block 0, thread 0: race: store of element 0 of S, which thread 95 also touches");
  EXPECT_EQ(run_warps(store + "barrier " + reversed + wait + store), "ok");
  // The smallest group of a phase counts.
  EXPECT_EQ(run_warps(store + "eval async_wait(0, 96) " + wait + "B[tx] = S[95 - tx]"),
            "k: block 0, thread 0: race: read of element 95 of S, which thread 95 also touches");
}

TEST(InterpLaunch, LaunchesSeeWhatEarlierOnesStored) {
  const ir::DeviceProgram program =
      ir::parse_device_program(
          "device p(A: f32[4]) -> (B: f32[4]) { temp T: f32[4]\n"
          "launch a(A) -> (T) { grid bx in 2, by in 1, bz in 1 block tx in 2, ty in 1, tz in 1\n"
          "T[bx * 2 + tx] = A[bx * 2 + tx] * 2.0 }\n"
          "launch b(T) -> (B) { grid bx in 1, by in 2, bz in 1 block tx in 1, ty in 2, tz in 1\n"
          "B[by * 2 + ty] = T[3 - by * 2 - ty] }}")
          .value();
  std::vector<HostTensor> params = {HostTensor(DType::kF32, {4}), HostTensor(DType::kF32, {4})};
  for (std::int64_t i = 0; i < 4; ++i) params[0].set_float(i, static_cast<double>(i));
  ASSERT_TRUE(run(program, params).ok());
  for (std::int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(params[1].get_float(i), static_cast<double>(2 * (3 - i)));
  params.pop_back();
  EXPECT_EQ(run(program, params).error().message, "p: 1 parameters given, 2 needed");
}

TEST(InterpLaunch, RefusesLaunchesThatAreTooLarge) {
  ir::DeviceProgram program =
      ir::parse_device_program(
          "device p() -> (B: f32[1]) { launch k() -> (B) {\n"
          "grid bx in 1, by in 1, bz in 1 block tx in 2048, ty in 1, tz in 1\n"
          "if tx == 0 { B[0] = 1.0 } }}")
          .value();
  std::vector<HostTensor> params = {HostTensor(DType::kF32, {1})};
  EXPECT_EQ(run(program, params).error().message,
            "k: 1 blocks of 2048 threads are too many to run");
  program.launches[0].params = {ir::Buffer::make("B", DType::kF32, {1})};
  EXPECT_EQ(run(program, params).error().message, "k: p has no buffer B");
}

}  // namespace
}  // namespace tessera::interp
