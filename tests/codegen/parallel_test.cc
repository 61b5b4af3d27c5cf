#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::For;
using ir::LoopKind;
using ir::Stmt;

TEST(ParallelTest, EveryIterationRunsOnce) {
  const Buffer out = Buffer::make("out", DType::kI64, {100});
  const Expr i = ir::Var::make("i");
  const Stmt add = ir::Store::make(out, {i}, ir::Load::make(out, {i}) + (i * 3));
  const ir::Func func{"add", {out}, 1, For::make(i, 100, LoopKind::kParallel, add)};
  for (const int workers : {1, 3, 8}) {
    std::vector<std::int64_t> got(100, 5);
    EXPECT_EQ(run(func, {got.data()}, workers), 1);
    for (std::size_t k = 0; k < 100; ++k) EXPECT_EQ(got[k], 5 + 3 * static_cast<std::int64_t>(k));
  }
}

// Each iteration fills a heap buffer of its worker and reduces it; a shared heap buffer feeds all.
TEST(ParallelTest, WorkspaceOfCallAndWorkers) {
  constexpr std::int64_t kRows = 37, kCols = 50;
  const Buffer out = Buffer::make("out", DType::kF32, {4, kRows});
  const Buffer shared = Buffer::make("shared", DType::kF32, {kCols}, ir::Scope::kHeap);
  const Buffer mine = Buffer::make("mine", DType::kF32, {kCols}, ir::Scope::kHeap);
  const Expr round = ir::Var::make("round"), row = ir::Var::make("row"), j = ir::Var::make("j");
  const auto as_float = [](const Expr& e) { return ir::cast(DType::kF32, e); };
  const Stmt fill =
      For::make(j, kCols, LoopKind::kSerial, ir::Store::make(shared, {j}, as_float(j + round)));
  const Expr k = ir::Var::make("k"), m = ir::Var::make("m");
  const Stmt scale =
      For::make(k, kCols, LoopKind::kSerial,
                ir::Store::make(mine, {k}, ir::Load::make(shared, {k}) * as_float(row)));
  const Stmt sum =
      For::make(m, kCols, LoopKind::kSerial,
                ir::Store::make(out, {round, row},
                                ir::Load::make(out, {round, row}) + ir::Load::make(mine, {m})));
  const Stmt rows = For::make(row, kRows, LoopKind::kParallel,
                              ir::Allocate::make(mine, ir::Block::make({scale, sum})));
  const Stmt body = ir::Allocate::make(
      shared, For::make(round, 4, LoopKind::kSerial, ir::Block::make({fill, rows})));
  const auto kernel = compile({"rows", {out}, 1, body});
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->info.shared_bytes, 256);  // 200 bytes, rounded up
  EXPECT_EQ(kernel->info.worker_bytes, 256);
  std::vector<float> got(4 * kRows, 0.0f);
  EXPECT_EQ(run(*kernel, {got.data()}, 4), 4);
  for (int r = 0; r < 4; ++r) {
    for (int i = 0; i < kRows; ++i) {
      EXPECT_EQ(got[static_cast<std::size_t>(r * kRows + i)],
                static_cast<float>(i * (1225 + 50 * r)));
    }
  }
}

TEST(ParallelTest, NestedLoopsRunSerially) {
  const Buffer out = Buffer::make("out", DType::kI64, {6, 7});
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  const Stmt inner =
      For::make(j, 7, LoopKind::kParallel, ir::Store::make(out, {i, j}, (i * 10) + j));
  std::vector<std::int64_t> got(42);
  EXPECT_EQ(run({"nested", {out}, 1, For::make(i, 6, LoopKind::kParallel, inner)}, {got.data()}, 2),
            1);
  for (std::size_t k = 0; k < 42; ++k)
    EXPECT_EQ(got[k], static_cast<std::int64_t>(k / 7 * 10 + k % 7));
}

TEST(ParallelTest, OneIterationDoesNotAskTheHost) {
  const Buffer out = Buffer::make("out", DType::kI64, {4});
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  const Stmt inner = For::make(j, 4, LoopKind::kParallel, ir::Store::make(out, {j}, i + j));
  std::vector<std::int64_t> got(4, -1);
  EXPECT_EQ(
      run({"one", {out}, 1, For::make(i, 1, LoopKind::kParallel, ir::Store::make(out, {i}, i + 9))},
          {got.data()}),
      0);
  EXPECT_EQ(got[0], 9);
  EXPECT_EQ(run({"inner", {out}, 1, For::make(i, 1, LoopKind::kParallel, inner)}, {got.data()}), 1);
  EXPECT_EQ(got[3], 3);
}

TEST(ParallelTest, StackBufferOfTheCallerIsShared) {
  const Buffer out = Buffer::make("out", DType::kF32, {16});
  const Buffer table = Buffer::make("table", DType::kF32, {16}, ir::Scope::kStack);
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  const Stmt fill = For::make(i, 16, LoopKind::kSerial,
                              ir::Store::make(table, {i}, ir::cast(DType::kF32, i * i)));
  const Stmt use =
      For::make(j, 16, LoopKind::kParallel,
                ir::Store::make(out, {j}, ir::Load::make(table, {ir::int_imm(15) - j})));
  std::vector<float> got(16);
  EXPECT_EQ(run({"table", {out}, 1, ir::Allocate::make(table, ir::Block::make({fill, use}))},
                {got.data()}, 3),
            1);
  for (std::size_t k = 0; k < 16; ++k) EXPECT_EQ(got[k], static_cast<float>((15 - k) * (15 - k)));
}

}  // namespace
}  // namespace tessera::codegen
