#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::Buffer;
using ir::Expr;

class StrideTest : public ::testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(StrideTest, LoadsAndStoresOfEveryStride) {
  const auto [t, lanes] = GetParam();
  const Expr zero = ir::int_imm(0);
  for (const std::int64_t stride : {0, 1, 2, 3, 4, 5, -1, -2}) {
    const std::int64_t span = (lanes - 1) * std::abs(stride) + 1;  // not one element to spare
    const Buffer a = Buffer::make("a", t, {span});
    const Buffer dense = Buffer::make("dense", t, {lanes});
    const Buffer spread = Buffer::make("spread", t, {span});
    const Expr index = ir::Ramp::make(ir::int_imm(stride < 0 ? span - 1 : 0), stride, lanes);
    const ir::Stmt body = ir::Block::make(
        {store_vec(dense, zero, ir::Load::make(a, {index})),
         ir::Store::make(spread, {stride == 0 ? ir::Ramp::make(zero, 0, lanes) : index},
                         ir::Broadcast::make(ir::Load::make(a, {zero}), lanes))});
    SCOPED_TRACE(stride);
    expect_like_interp({"strided", {a, dense, spread}, 2, body}, {edge_values(t, span, 3)});
  }
}

INSTANTIATE_TEST_SUITE_P(Types, StrideTest,
                         ::testing::Combine(::testing::Values(DType::kBool, DType::kI8, DType::kF16,
                                                              DType::kBF16, DType::kF32,
                                                              DType::kF64, DType::kI64),
                                            ::testing::Values(2, 3, 4, 6, 7, 8, 16)),
                         type_and_lanes);

TEST(MemoryTest, GatherAndScatterThroughAnIndexBuffer) {
  const Buffer table = Buffer::make("table", DType::kF32, {5, 6});
  const Buffer where = Buffer::make("where", DType::kI64, {4});
  const Buffer out = Buffer::make("out", DType::kF32, {4});
  const Buffer spread = Buffer::make("spread", DType::kF32, {5, 6});
  const Expr zero = ir::int_imm(0);
  const Expr columns = load_vec(where, zero, 4);
  const Expr value = ir::Load::make(table, {ir::int_imm(3), columns});
  const ir::Stmt body = ir::Block::make(
      {store_vec(out, zero, value), ir::Store::make(spread, {ir::int_imm(2), columns}, value)});
  HostTensor index(DType::kI64, {4});
  for (const int i : {0, 1, 2, 3}) index.set_int(i, (5 * i + 2) % 6);
  Rng rng(1);
  expect_like_interp({"gather", {table, where, out, spread}, 2, body},
                     {random_tensor(DType::kF32, {5, 6}, rng), index});
}

TEST(MemoryTest, ScalarIndexFromMemory) {
  const Buffer table = Buffer::make("table", DType::kI32, {10, 4});
  const Buffer where = Buffer::make("where", DType::kI64, {8});
  const Buffer out = Buffer::make("out", DType::kI32, {8, 4});
  const Expr i = ir::Var::make("i");
  const Expr columns = ir::Ramp::make(ir::int_imm(0), 1, 4);
  const ir::Stmt copy = ir::Store::make(
      out, {i, columns}, ir::Load::make(table, {ir::Load::make(where, {i}), columns}));
  HostTensor index(DType::kI64, {8});
  for (int k = 0; k < 8; ++k) index.set_int(k, (7 * k + 3) % 10);
  Rng rng(1);
  expect_like_interp(
      {"embed", {table, where, out}, 1, ir::For::make(i, 8, ir::LoopKind::kSerial, copy)},
      {random_tensor(DType::kI32, {10, 4}, rng), index});
}

// Choosing between two loads branches, and the row's address is computed where the branches meet.
TEST(MemoryTest, NegativeIndicesFromMemoryCountFromTheEnd) {
  const Buffer table = Buffer::make("table", DType::kF32, {10, 4});
  const Buffer where = Buffer::make("where", DType::kI64, {8});
  const Buffer out = Buffer::make("out", DType::kF32, {8, 4});
  const Expr i = ir::Var::make("i");
  const Expr columns = ir::Ramp::make(ir::int_imm(0), 1, 4);
  const Expr at = ir::Load::make(where, {i});
  const Expr row = ir::select(ir::lt(at, ir::int_imm(0)), at + 10, at);
  const ir::Stmt copy = ir::Store::make(out, {i, columns}, ir::Load::make(table, {row, columns}));
  HostTensor index(DType::kI64, {8});
  for (int k = 0; k < 8; ++k) index.set_int(k, (7 * k + 3) % 10 - (k % 2 == 0 ? 10 : 0));
  Rng rng(1);
  expect_like_interp(
      {"embed", {table, where, out}, 1, ir::For::make(i, 8, ir::LoopKind::kSerial, copy)},
      {random_tensor(DType::kF32, {10, 4}, rng), index});
}

TEST(MemoryTest, VectorIndexInTheFirstDimension) {
  const Buffer a = Buffer::make("a", DType::kF32, {4, 3});
  const Buffer out = Buffer::make("out", DType::kF32, {3, 4});
  const Expr j = ir::Var::make("j");
  const Expr column = ir::Load::make(a, {ir::Ramp::make(ir::int_imm(0), 1, 4), j});
  const auto kernel =
      jit({"transpose",
           {a, out},
           1,
           ir::For::make(j, 3, ir::LoopKind::kSerial,
                         ir::Store::make(out, {j, ir::Ramp::make(ir::int_imm(0), 1, 4)}, column))},
          target::host());
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  std::vector<float> in(12), got(12);
  for (std::size_t i = 0; i < 12; ++i) in[i] = static_cast<float>(i);
  run(**kernel, {in.data(), got.data()});
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(got[i], in[i % 4 * 3 + i / 4]);
}

TEST(MemoryTest, BroadcastsAndShuffles) {
  for (const DType t : {DType::kI8, DType::kU8, DType::kBF16, DType::kF32, DType::kBool}) {
    const Buffer a = Buffer::make("a", t, {4});
    const Expr zero = ir::int_imm(0);
    const Expr x = load_vec(a, zero, 4);
    const Buffer out = Buffer::make("out", t, {16}), four = Buffer::make("four", t, {4}),
                 one = Buffer::make("one", t, {1});
    const ir::Stmt body =
        ir::Block::make({store_vec(out, zero, ir::Broadcast::make(x, 16)),
                         store_vec(four, zero, ir::Shuffle::make(x, {3, 0, 0, 2})),
                         store_vec(one, zero, ir::Shuffle::make(x, {2}))});
    expect_like_interp({"shuffle", {a, out, four, one}, 3, body}, {edge_values(t, 4, 6)});
  }
}

// Neighbouring broadcast scalars become lanes of one vector, unless a store in between may change
// them.
TEST(MemoryTest, GroupedBroadcastLoadsSeeStores) {
  const Buffer a = Buffer::make("a", DType::kF32, {8});
  const Buffer out = Buffer::make("out", DType::kF32, {4, 4});
  std::vector<ir::Stmt> body;
  for (int i = 0; i < 4; ++i) {
    const Expr row = ir::int_imm(i);
    body.push_back(ir::Store::make(out, {row, ir::Ramp::make(ir::int_imm(0), 1, 4)},
                                   ir::Broadcast::make(ir::Load::make(a, {row}), 4)));
    body.push_back(
        ir::Store::make(a, {row + 1}, ir::Load::make(a, {row}) + ir::imm(DType::kF32, 1)));
  }
  std::vector<float> data = {5, 0, 0, 0, 0, 0, 0, 0}, got(16);
  run({"chain", {a, out}, 2, ir::Block::make(body)}, {data.data(), got.data()});
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(got[i], 5.0f + static_cast<float>(i / 4));
}

TEST(MemoryTest, GroupedBroadcastLoadsOfPartialGroups) {
  for (const int rows : {1, 2, 3, 5, 6, 7}) {
    const Buffer a = Buffer::make("a", DType::kF32, {rows});
    const Buffer out = Buffer::make("out", DType::kF32, {rows, 4});
    std::vector<ir::Stmt> body;
    for (int i = 0; i < rows; ++i) {
      body.push_back(ir::Store::make(out, {ir::int_imm(i), ir::Ramp::make(ir::int_imm(0), 1, 4)},
                                     ir::Broadcast::make(ir::Load::make(a, {ir::int_imm(i)}), 4)));
    }
    Rng rng(3);
    expect_like_interp({"rows", {a, out}, 1, ir::Block::make(body)},
                       {random_tensor(DType::kF32, {rows}, rng)});
  }
}

TEST(MemoryTest, PrefetchNeverFaults) {
  const Buffer a = Buffer::make("a", DType::kF32, {4});
  const Expr far = ir::int_imm(std::int64_t{1} << 40);
  const ir::Stmt fetch =
      ir::Evaluate::make(ir::Call::make(ir::Intrinsic::kPrefetch, {ir::Load::make(a, {far})}));
  const ir::Func func{
      "prefetch",
      {a},
      1,
      ir::Block::make({fetch, ir::Store::make(a, {ir::int_imm(0)}, ir::imm(DType::kF32, 3))})};
  float data[4] = {};
  auto kernel = jit(func, target::host());
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  run(**kernel, {data});
  EXPECT_EQ(data[0], 3);
  EXPECT_EQ(count(emit_asm(func, aarch64_target()).value(), "prfm"), 1);
}

}  // namespace
}  // namespace tessera::codegen
