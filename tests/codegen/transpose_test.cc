#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::Buffer;
using ir::Expr;

Expr column(const Buffer& a, const Expr& base, std::int64_t stride, int lanes) {
  return ir::Load::make(a, {ir::Ramp::make(base, stride, lanes)});
}

// out[c * lanes ...] = column c of a matrix of `lanes` rows, for the given columns, at both rows of
// blocks.
ir::Func pack(DType t, int lanes, std::int64_t stride, const std::vector<int>& columns) {
  const Buffer a = Buffer::make("a", t, {2 * lanes * stride});
  const Buffer out =
      Buffer::make("out", t, {2 * static_cast<std::int64_t>(columns.size()) * lanes});
  const Expr i = ir::Var::make("i");
  std::vector<ir::Stmt> body;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const auto block = static_cast<std::int64_t>(columns.size()) * lanes;
    body.push_back(store_vec(out, i * block + static_cast<std::int64_t>(k) * lanes,
                             column(a, i * (lanes * stride) + columns[k], stride, lanes)));
  }
  return {"pack", {a, out}, 1, ir::For::make(i, 2, ir::LoopKind::kSerial, ir::Block::make(body))};
}

// The reverse: dense vectors of `a` become columns of out.
ir::Func unpack(DType t, int lanes, std::int64_t stride, const std::vector<int>& columns) {
  const Buffer a = Buffer::make("a", t, {static_cast<std::int64_t>(columns.size()) * lanes});
  const Buffer out = Buffer::make("out", t, {lanes * stride});
  std::vector<ir::Stmt> body;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    body.push_back(
        ir::Store::make(out, {ir::Ramp::make(ir::int_imm(columns[k]), stride, lanes)},
                        load_vec(a, ir::int_imm(static_cast<std::int64_t>(k) * lanes), lanes)));
  }
  return {"unpack", {a, out}, 1, ir::Block::make(body)};
}

class TransposeTest : public ::testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(TransposeTest, FullAndPartialGroupsOfColumns) {
  const auto [t, lanes] = GetParam();
  for (const std::vector<int>& columns : {std::vector<int>{0, 1, 2, 3},
                                          {3, 1, 0, 2},
                                          {0, 1, 2},
                                          {0, 2, 4},
                                          {0, 1, 2, 3, 4, 5, 6, 7, 8},
                                          {0, 1, 2, 3, 1, 2}}) {
    const ir::Func packing = pack(t, lanes, 9, columns);
    expect_like_interp(packing, {edge_values(t, packing.params[0].size(), 5)});
    const ir::Func unpacking = unpack(t, lanes, 9, columns);
    expect_like_interp(unpacking, {edge_values(t, unpacking.params[0].size(), 6)});
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TransposeTest,
                         ::testing::Combine(::testing::Values(DType::kBool, DType::kI8,
                                                              DType::kBF16, DType::kF16,
                                                              DType::kF32, DType::kF64),
                                            ::testing::Values(2, 4, 5, 16)),
                         type_and_lanes);

TEST(TransposeAsmTest, PackingLoadsRowsAndZips) {
  for (const int lanes : {4, 8}) {
    const auto text = emit_asm(pack(DType::kF32, lanes, 64, {0, 1, 2, 3}), aarch64_target());
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_EQ(count(*text, "ld1"), 0) << *text;
    EXPECT_EQ(count(*text, "ldr\tq"), lanes) << *text;
    EXPECT_LE(count(*text, "zip") + count(*text, "trn") + count(*text, "uzp"), 2 * lanes) << *text;
    EXPECT_EQ(count(*text, "str\tq") + count(*text, "stur\tq"), lanes) << *text;
  }
}

TEST(TransposeAsmTest, UnpackingStoresRows) {
  const auto text = emit_asm(unpack(DType::kF32, 4, 64, {0, 1, 2, 3}), aarch64_target());
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(count(*text, "st1") + count(*text, "st2"), 0) << *text;
  EXPECT_EQ(count(*text, "str\tq"), 4) << *text;
  EXPECT_LE(count(*text, "zip") + count(*text, "trn") + count(*text, "uzp"), 8) << *text;
}

TEST(TransposeAsmTest, SingleColumnsStayGathers) {
  const auto text = emit_asm(pack(DType::kF32, 4, 64, {0, 2, 5}), aarch64_target());
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(count(*text, "ldr\tq"), 0) << *text;
  EXPECT_EQ(count(*text, "ld1"), 9) << *text;
}

TEST(TransposeAsmTest, X86UnpacksToo) {
  const auto text = emit_asm(pack(DType::kF32, 8, 64, {0, 1, 2, 3, 4, 5, 6, 7}), avx2_target());
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(count(*text, "vinsertps"), 0) << *text;
  EXPECT_GE(count(*text, "vunpck") + count(*text, "vshufps"), 8) << *text;
  EXPECT_EQ(count(*text, "vmovups\t%ymm"), 8) << *text;
}

// Stores in the region change what later columns hold, and later stores to the same place win.
TEST(TransposeTest, StoresInBetweenAreSeen) {
  const Buffer in = Buffer::make("in", DType::kF32, {32});
  const Buffer a = Buffer::make("a", DType::kF32, {32});
  const Buffer out = Buffer::make("out", DType::kF32, {16});
  std::vector<ir::Stmt> body = {store_vec(a, ir::int_imm(0), load_vec(in, ir::int_imm(0), 32))};
  for (int c = 0; c < 4; ++c) {
    body.push_back(store_vec(out, ir::int_imm(4 * c), column(a, ir::int_imm(c), 8, 4)));
    body.push_back(ir::Store::make(a, {ir::int_imm(c + 9)}, ir::imm(DType::kF32, 100 + c)));
  }
  Rng rng(2);
  expect_like_interp({"changing", {in, a, out}, 2, ir::Block::make(body)},
                     {random_tensor(DType::kF32, {32}, rng)});
}

TEST(TransposeTest, OverlappingColumnsKeepTheirOrder) {
  const Buffer a = Buffer::make("a", DType::kF32, {32});
  const Buffer out = Buffer::make("out", DType::kF32, {24});
  std::vector<ir::Stmt> body;
  for (const int c : {0, 1, 2, 3, 5, 4}) {  // stride 4: columns 0 and 4, 1 and 5 share elements
    body.push_back(ir::Store::make(out, {ir::Ramp::make(ir::int_imm(c), 4, 4)},
                                   load_vec(a, ir::int_imm(4 * c), 4)));
  }
  Rng rng(2);
  expect_like_interp({"overlap", {a, out}, 1, ir::Block::make(body)},
                     {random_tensor(DType::kF32, {32}, rng)});
}

TEST(TransposeTest, ColumnsReadBackAreNotDelayed) {
  const Buffer a = Buffer::make("a", DType::kF32, {16});
  const Buffer out = Buffer::make("out", DType::kF32, {32});
  const Buffer seen = Buffer::make("seen", DType::kF32, {4});
  std::vector<ir::Stmt> body;
  for (int c = 0; c < 4; ++c) {
    body.push_back(ir::Store::make(out, {ir::Ramp::make(ir::int_imm(c), 8, 4)},
                                   load_vec(a, ir::int_imm(4 * c), 4)));
    body.push_back(
        ir::Store::make(seen, {ir::int_imm(c)}, ir::Load::make(out, {ir::int_imm(c + 8)})));
  }
  Rng rng(2);
  expect_like_interp({"read_back", {a, out, seen}, 2, ir::Block::make(body)},
                     {random_tensor(DType::kF32, {16}, rng)});
}

// A column under a condition may lie outside of the buffer: the others must not rely on it.
TEST(TransposeTest, GuardedColumnsAreNotLoadedEarly) {
  const Buffer a = Buffer::make("a", DType::kF32, {4 * 8 + 3});
  const Buffer out = Buffer::make("out", DType::kF32, {16});
  const Expr i = ir::Var::make("i");
  std::vector<ir::Stmt> body;
  for (int c = 0; c < 4; ++c) {
    const Expr load = column(a, i * 8 + c, 8, 4);
    const Expr value =
        c < 3 ? load
              : ir::Select::make(ir::lt(i, ir::int_imm(0)), load, ir::zero({DType::kF32, 4}));
    body.push_back(store_vec(out, ir::int_imm(4 * c), value));
  }
  Rng rng(2);
  expect_like_interp(
      {"guarded", {a, out}, 1, ir::For::make(i, 2, ir::LoopKind::kSerial, ir::Block::make(body))},
      {random_tensor(DType::kF32, {4 * 8 + 3}, rng)});
}

}  // namespace
}  // namespace tessera::codegen
