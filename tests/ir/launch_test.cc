#include "tessera/lang/ir/launch.h"

#include <gtest/gtest.h>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/verify.h"

namespace tessera::ir {
namespace {

constexpr const char* kSums =
    "device sums(A: f32[2, 64]) -> (B: f32[2]) {\n"
    "  temp P: f32[2, 64]\n"
    "  launch square(A) -> (P) {\n"
    "    grid bx in 2, by in 1, bz in 1\n"
    "    block tx in 32, ty in 1, tz in 1\n"
    "    shared A.shared: f32[64]\n"
    "    for i in 2 {\n"
    "      eval async_copy(A.shared[i * 32 + tx], A[bx, i * 32 + tx])\n"
    "    }\n"
    "    eval async_commit()\n"
    "    eval async_wait(0)\n"
    "    eval products_wait()\n"
    "    barrier\n"
    "    for i in 2 {\n"
    "      P[bx, i * 32 + tx] = A.shared[63 - (i * 32 + tx)] * A.shared[63 - (i * 32 + tx)]\n"
    "    }\n"
    "  }\n"
    "  launch sum(P) -> (B) {\n"
    "    grid bx in 1, by in 2, bz in 1\n"
    "    block tx in 32, ty in 1, tz in 1\n"
    "    alloc acc: f32[1] stack {\n"
    "      acc[0] = P[by, tx] + P[by, tx + 32]\n"
    "      acc[0] = acc[0] + shuffle_xor(acc[0], 16)\n"
    "      if tx == 0 {\n"
    "        B[by] = acc[0]\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n";

TEST(Launch, PrintsWhatItParses) {
  const auto program = parse_device_program(kSums);
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_EQ(to_text(*program), kSums);
  EXPECT_TRUE(verify(*program).ok()) << verify(*program).error().message;
  EXPECT_EQ(program->launches[0].blocks(), 2);
  EXPECT_EQ(program->launches[1].threads(), 32);
}

TEST(Launch, EqualityMatchesVariablesAndBuffers) {
  const DeviceProgram a = parse_device_program(kSums).value();
  DeviceProgram b = parse_device_program(kSums).value();
  EXPECT_TRUE(equal(a, b));
  b.launches[0].block[0] = 16;
  EXPECT_FALSE(equal(a, b));
  b = parse_device_program(kSums).value();
  std::swap(b.launches[0].thread_vars[0], b.launches[0].block_vars[0]);
  EXPECT_FALSE(equal(a, b));
  b = parse_device_program(kSums).value();
  b.launches.pop_back();
  EXPECT_FALSE(equal(a, b));
  b = parse_device_program(kSums).value();
  b.launches[1].params = {b.params[0], b.params[1]};
  EXPECT_FALSE(equal(a, b));
}

TEST(Launch, TruncatedTextIsAnError) {
  const std::string text = kSums;
  for (std::size_t n = 0; n < text.rfind('}'); ++n)
    EXPECT_FALSE(parse_device_program(text.substr(0, n)).ok()) << n;
  EXPECT_FALSE(parse_device_program(text + "x").ok());
}

// One launch over A: f32[64] and B: f32[64] with a shared buffer S.
std::string error_of(const std::string& body, const std::string& block = "tx in 32") {
  const auto program = parse_device_program(
      "device p(A: f32[64]) -> (B: f32[64]) {\n"
      "launch k(A) -> (B) { grid bx in 2, by in 1, bz in 1 block " +
      block + ", ty in 1, tz in 1 shared S: f32[64]\n" + body + "}}");
  if (!program.ok()) return program.error().message;
  const auto verified = verify(*program);
  return verified.ok() ? "" : verified.error().message;
}

TEST(Launch, WarpsMayHaveOtherSizes) {
  const std::string wide = "tx in 64", exchange = "B[tx] = shuffle_xor(A[tx], 32)";
  EXPECT_EQ(error_of(exchange, wide),
            "k: exchange beyond a warp of 32 threads: shuffle_xor(A[tx], 32)");
  std::string text =
      "device p(A: f32[64]) -> (B: f32[64]) {\n"
      "  launch k(A) -> (B) {\n"
      "    grid bx in 1, by in 1, bz in 1\n"
      "    block tx in 64, ty in 1, tz in 1, warp in 64\n"
      "    B[tx] = shuffle_xor(A[tx], 32)\n"
      "  }\n"
      "}\n";
  const DeviceProgram program = parse_device_program(text).value();
  EXPECT_EQ(program.launches[0].warp, 64);
  EXPECT_TRUE(verify(program).ok());
  EXPECT_EQ(to_text(program), text);
  DeviceProgram narrow = program;
  narrow.launches[0].warp = kUsualWarp;
  EXPECT_FALSE(equal(program, narrow));
  EXPECT_FALSE(verify(narrow).ok());
}

TEST(Launch, BarriersMustBeUniform) {
  const std::string divergent = "k: barrier where threads diverge";
  EXPECT_EQ(error_of("barrier"), "");
  EXPECT_EQ(error_of("for i in 4 { if i + bx < 3 { barrier } }"), "");
  EXPECT_EQ(error_of("if tx < 3 { barrier }"), divergent);
  EXPECT_EQ(error_of("if bx < 3 { B[tx] = 1.0 } else { for i in tx { barrier } }"), divergent);
  EXPECT_EQ(error_of("if A[bx] < 1.0 { barrier }"), divergent);
}

TEST(Launch, OnlyWhatThreadsMayDo) {
  EXPECT_EQ(error_of("parallel i in 4 { B[i] = 1.0 }"),
            "k: loop in a launch is neither serial nor unrolled: parallel i in 4 {");
  EXPECT_EQ(error_of("alloc t: f32[4] heap { t[0] = 1.0 }"),
            "k: allocation in a launch is not on the stack: alloc t: f32[4] heap {");
  EXPECT_EQ(error_of("A[0] = 1.0"), "k: store to an input: A[0] = 1.0");
  EXPECT_EQ(error_of("B[0] = 1.0", "tx in 0"), "line 2, column 65: integer out of range");
  EXPECT_EQ(error_of("B[0] = shuffle_xor(A[0], 32)"),
            "k: exchange beyond a warp of 32 threads: shuffle_xor(A[0], 32)");
  EXPECT_EQ(error_of("B[0] = shuffle_xor(A[0], tx)"),
            "line 3, column 8: shuffle_xor: mask is not a positive constant");
  EXPECT_EQ(error_of("eval async_copy(S[0], 1.0)"),
            "line 3, column 6: async_copy: async_copy needs two loads");
  EXPECT_EQ(error_of("eval async_wait(tx)"),
            "line 3, column 6: async_wait: number of groups is not a constant");
  EXPECT_EQ(error_of("eval async_wait(-1)"),
            "line 3, column 6: async_wait: number of groups is not a constant");
  EXPECT_EQ(error_of("eval products_wait(0)"),
            "line 3, column 6: products_wait: wrong number of arguments");
  EXPECT_EQ(error_of("eval async_wait(0, 33)"),
            "k: wait of threads that are not whole warps of 32: async_wait(0, 33)");
  EXPECT_EQ(error_of("eval async_wait(0, tx)"),
            "line 3, column 6: async_wait: number of threads is not a positive constant");
  EXPECT_EQ(error_of("if (tx < 2) { eval async_wait(0, 32) }"),
            "k: threads wait for each other where they diverge");
  EXPECT_EQ(error_of("eval matrix_rows(A[0])"),
            "line 3, column 6: matrix_rows: not a load of shared memory");
  EXPECT_EQ(error_of("eval matrix_rows(S[ramp(0, 1, 2)])"),
            "line 3, column 6: matrix_rows: a row has 16 bytes");
  EXPECT_EQ(error_of("eval matrix_columns(S[ramp(0, 1, 4)])"),
            "line 3, column 6: matrix_columns: only elements of 2 bytes are transposed");
  EXPECT_EQ(error_of("eval mma(broadcast(0.0f16, 4), broadcast(0.0f16, 8), broadcast(0.0f16, 4))"),
            "line 3, column 6: mma: accumulator has the wrong type");
  EXPECT_EQ(error_of("eval mma(broadcast(0.0, 4), broadcast(0.0f16, 8), broadcast(0.0bf16, 4))"),
            "line 3, column 6: mma: operand has the wrong type");
  EXPECT_EQ(error_of("eval mma(broadcast(0.0, 4), broadcast(0.0f16, 8), broadcast(0.0f16, 8))"),
            "line 3, column 6: mma: operand has the wrong number of lanes");
  EXPECT_EQ(error_of("eval async_copy(B[0], A[0])"),
            "k: asynchronous copy is not from device to shared memory: async_copy(B[0], A[0])");
  EXPECT_EQ(error_of("eval async_copy(S[0], S[1])"),
            "k: asynchronous copy is not from device to shared memory: async_copy(S[0], S[1])");
  const Func f{"f", {}, 0, Barrier::make()};
  EXPECT_EQ(verify(f).error().message, "f: barrier outside a launch");
  const Func g{"g", {}, 0, Evaluate::make(Call::make(Intrinsic::kAsyncCommit, {}))};
  EXPECT_EQ(verify(g).error().message, "g: intrinsic of threads outside a launch: async_commit()");
}

TEST(Launch, BuffersBelongToTheProgram) {
  DeviceProgram p = parse_device_program(kSums).value();
  p.temporaries.clear();
  EXPECT_EQ(verify(p).error().message,
            "sums: launch square uses P, which the program does not have");
  p = parse_device_program(kSums).value();
  p.launches[0].num_outputs = 2;
  EXPECT_EQ(verify(p).error().message, "sums: launch square writes input A");
  p = parse_device_program(kSums).value();
  p.launches[0].shared[0] = p.temporaries[0];
  EXPECT_EQ(verify(p).error().message, "square: shared buffer P has another scope");
  p = parse_device_program(kSums).value();
  p.launches[0].thread_vars[1] = p.launches[0].thread_vars[0];
  EXPECT_EQ(verify(p).error().message, "square: index of a thread is bound twice");
  p = parse_device_program(kSums).value();
  p.launches[0].grid[2] = 0;
  EXPECT_EQ(verify(p).error().message, "square: 0 threads or blocks");
}

}  // namespace
}  // namespace tessera::ir
