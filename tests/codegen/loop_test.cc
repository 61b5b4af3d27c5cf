#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "kernel_runner.h"
#include "micro_kernel.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::For;
using ir::LoopKind;
using ir::Stmt;

TEST(LoopTest, ExtentsFromOuterLoopsMayBeZero) {
  const Buffer out = Buffer::make("out", DType::kI64, {8, 8});
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  const Stmt inner =
      For::make(j, i, LoopKind::kSerial, ir::Store::make(out, {i, j}, ir::int_imm(1)));
  std::vector<std::int64_t> got(64);
  run({"triangle", {out}, 1, For::make(i, 8, LoopKind::kSerial, inner)}, {got.data()});
  for (std::size_t k = 0; k < 64; ++k) EXPECT_EQ(got[k], k % 8 < k / 8 ? 1 : 0);
}

TEST(LoopTest, ConstantExtentsHaveNoEntryTest) {
  const Buffer out = Buffer::make("out", DType::kF32, {8});
  const Expr i = ir::Var::make("i");
  const auto text =
      emit_llvm(elementwise({}, {{out, ir::cast(DType::kF32, i)}}, i, 1), aarch64_target());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(count(*text, "br i1"), 1);
  EXPECT_EQ(count(*text, "icmp ne"), 1);
}

// Strides up, down and across, near and far offsets, from a first index that is not zero.
TEST(LoopTest, PointersAdvanceWithoutMultiplication) {
  constexpr std::int64_t kRows = 50, kColumns = 200;
  const Buffer a = Buffer::make("a", DType::kF32, {kRows * kColumns});
  const Buffer out = Buffer::make("out", DType::kF32, {40});
  const Expr i = ir::Var::make("i");
  const Expr sum = ir::Load::make(a, {i * kColumns + 3}) + ir::Load::make(a, {i * -3 + 9001}) +
                   ir::Load::make(a, {i + 70}) + ir::Load::make(a, {i + 4097});
  for (const LoopKind kind : {LoopKind::kSerial, LoopKind::kParallel}) {
    const ir::Func func{
        "walk", {a, out}, 1, For::make(i, 40, kind, ir::Store::make(out, {i}, sum))};
    expect_like_interp(func, {edge_values(DType::kF32, kRows * kColumns, 4)});
    const auto text = emit_llvm(func, aarch64_target());
    ASSERT_TRUE(text.ok());
    const std::string loop = text->substr(text->find("\nloop:"));
    EXPECT_EQ(count(loop, " mul "), 0) << loop;
  }
}

TEST(LoopTest, BranchesAndEmptyLoops) {
  const Buffer out = Buffer::make("out", DType::kI64, {10});
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  const auto put = [&](std::int64_t v) { return ir::Store::make(out, {i}, ir::int_imm(v)); };
  const Expr even = ir::eq(ir::mod(i, ir::int_imm(2)), ir::int_imm(0));
  const Stmt never = For::make(j, std::int64_t{0}, LoopKind::kSerial, put(99));
  const Stmt body = ir::Block::make(
      {ir::If::make(even, put(7), put(8)), ir::If::make(ir::eq(i, ir::int_imm(9)), put(1)), never});
  std::vector<std::int64_t> got(10);
  run({"branches", {out}, 1, For::make(i, 10, LoopKind::kSerial, body)}, {got.data()});
  EXPECT_EQ(got, (std::vector<std::int64_t>{7, 8, 7, 8, 7, 8, 7, 8, 7, 1}));
}

TEST(LoopTest, IndexBelowTheBufferWithinAGuard) {
  const Buffer a = Buffer::make("a", DType::kF32, {9});
  const Buffer out = Buffer::make("out", DType::kF32, {9});
  const Expr i = ir::Var::make("i"), w = ir::Var::make("w");
  const Expr at = i + w - 1;
  const Expr inside = ir::logical_and(ir::le(ir::int_imm(0), at), ir::lt(at, ir::int_imm(9)));
  const Stmt add =
      ir::Store::make(out, {i},
                      ir::Load::make(out, {i}) +
                          ir::select(inside, ir::Load::make(a, {at}), ir::imm(DType::kF32, 0)));
  Rng rng(3);
  const ir::Func func{"window",
                      {a, out},
                      1,
                      For::make(i, 9, LoopKind::kSerial,
                                ir::Block::make({ir::Store::make(out, {i}, ir::imm(DType::kF32, 0)),
                                                 For::make(w, 3, LoopKind::kSerial, add)}))};
  expect_like_interp(func, {random_tensor(DType::kF32, {9}, rng)});
}

TEST(LoopTest, LargeStackBuffersMoveToTheWorkspace) {
  const std::int64_t n = 20000;  // 80 kB
  const Buffer out = Buffer::make("out", DType::kF32, {n});
  const Buffer big = Buffer::make("big", DType::kF32, {n}, ir::Scope::kStack);
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  const Stmt body = ir::Block::make(
      {For::make(i, n, LoopKind::kSerial, ir::Store::make(big, {i}, ir::cast(DType::kF32, i))),
       For::make(j, n, LoopKind::kSerial,
                 ir::Store::make(out, {j}, ir::Load::make(big, {ir::int_imm(n - 1) - j})))});
  const auto kernel = compile({"big", {out}, 1, ir::Allocate::make(big, body)});
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->info.shared_bytes, 80000);
  std::vector<float> got(static_cast<std::size_t>(n));
  run(*kernel, {got.data()});
  EXPECT_EQ(got.front(), static_cast<float>(n - 1));
  EXPECT_EQ(got.back(), 0);
}

TEST(LoopTest, FailuresAreErrors) {
  const Buffer out = Buffer::make("out", DType::kF32, {4});
  const Expr i = ir::Var::make("i");
  const Stmt store = ir::Store::make(out, {i}, ir::imm(DType::kF32, 1));
  const auto unrolled =
      jit({"f", {out}, 1, For::make(i, 4, LoopKind::kUnrolled, store)}, target::host());
  ASSERT_FALSE(unrolled.ok());
  EXPECT_EQ(unrolled.error().code, ErrorCode::kUnsupported);
  const auto unbound = jit({"f", {out}, 1, store}, target::host());
  ASSERT_FALSE(unbound.ok());
  EXPECT_EQ(unbound.error().code, ErrorCode::kBuildFailed);
  const Buffer shared = Buffer::make("s", DType::kF32, {4}, ir::Scope::kShared);
  const auto scope = emit_asm(
      {"f", {out}, 1, ir::Allocate::make(shared, For::make(i, 4, LoopKind::kSerial, store))},
      target::host());
  ASSERT_FALSE(scope.ok());
  EXPECT_EQ(scope.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(compile({micro_kernel(4, 4, 4, 2), micro_kernel(4, 4, 4, 3)}, target::host()).ok());
}

TEST(LoopTest, ThreadsCompileAndRunIndependently) {
  std::vector<std::thread> threads;
  std::vector<std::vector<std::int64_t>> got(4, std::vector<std::int64_t>(64));
  for (std::int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([t, &got] {
      for (std::int64_t round = 0; round < 10; ++round) {
        const Buffer out = Buffer::make("out", DType::kI64, {64});
        const Expr i = ir::Var::make("i");
        const auto kernel = compile(elementwise({}, {{out, i * (t + 1) + round}}, i, 1));
        if (kernel) run(*kernel, {got[static_cast<std::size_t>(t)].data()});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < 4; ++t) {
    for (std::size_t i = 0; i < 64; ++i)
      EXPECT_EQ(got[t][i], static_cast<std::int64_t>(i * (t + 1) + 9));
  }
}

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(LoopTest, DestroyedKernelsLeaveNothingBehind) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer keeps freed memory in quarantine";
#endif
  const ir::Func func = micro_kernel(4, 8, 4, 16);
  const auto compile_some = [&] {
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(jit(func, target::host()).ok());
  };
  compile_some();
  const std::int64_t before = resident_bytes();
  for (int i = 0; i < 4; ++i) compile_some();
  EXPECT_LT(resident_bytes() - before,
            4 << 20);  // one page per kernel alone would be 1 MB and more
}

}  // namespace
}  // namespace tessera::codegen
