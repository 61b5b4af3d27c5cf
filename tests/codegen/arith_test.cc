#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::BinaryOp;
using ir::Buffer;
using ir::Expr;

std::vector<BinaryOp> ops_of(DType t) {
  if (t == DType::kBool)
    return {BinaryOp::kAnd, BinaryOp::kOr, BinaryOp::kXor, BinaryOp::kEq, BinaryOp::kNe};
  std::vector<BinaryOp> ops = {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv,
                               BinaryOp::kMod, BinaryOp::kMin, BinaryOp::kMax, BinaryOp::kEq,
                               BinaryOp::kNe,  BinaryOp::kLt,  BinaryOp::kLe};
  if (is_int(t)) {
    ops.insert(ops.end(), {BinaryOp::kFloorDiv, BinaryOp::kFloorMod, BinaryOp::kAnd, BinaryOp::kOr,
                           BinaryOp::kXor, BinaryOp::kShl, BinaryOp::kShr});
  }
  return ops;
}

class ArithTest : public ::testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(ArithTest, EveryOperatorAgreesWithTheInterpreter) {
  const auto [t, lanes] = GetParam();
  const std::int64_t n = 20 * 21;
  const Buffer a = Buffer::make("a", t, {n});
  const Buffer b = Buffer::make("b", t, {n});
  const Expr i = ir::Var::make("i");
  std::vector<Output> outputs;
  for (const BinaryOp op : ops_of(t)) {
    const Buffer out = Buffer::make(ir::to_text(op), ir::is_comparison(op) ? DType::kBool : t, {n});
    outputs.push_back(
        {out, ir::Binary::make(op, load_vec(a, i * lanes, lanes), load_vec(b, i * lanes, lanes))});
  }
  expect_like_interp(elementwise({a, b}, outputs, i, lanes),
                     {edge_values(t, n, 1), edge_values(t, n, 2)});
}

INSTANTIATE_TEST_SUITE_P(AllTypes, ArithTest,
                         ::testing::Combine(::testing::Values(DType::kBool, DType::kI8, DType::kU8,
                                                              DType::kI16, DType::kU16, DType::kI32,
                                                              DType::kU32, DType::kI64, DType::kU64,
                                                              DType::kF16, DType::kBF16,
                                                              DType::kF32, DType::kF64),
                                            ::testing::Values(1, 3, 4, 5, 7)),
                         type_and_lanes);

TEST(ConstantDivisionTest, EveryKindOfDivisor) {
  for (const DType t :
       {DType::kI8, DType::kU8, DType::kI32, DType::kU32, DType::kI64, DType::kU64}) {
    for (const int lanes : {1, 4}) {
      const std::int64_t n = 128;
      const Buffer a = Buffer::make("a", t, {n});
      const Expr i = ir::Var::make("i");
      std::vector<Output> outputs;
      for (const BinaryOp op :
           {BinaryOp::kDiv, BinaryOp::kMod, BinaryOp::kFloorDiv, BinaryOp::kFloorMod}) {
        for (const int d : {0, 1, -1, 2, 8, 64, 3, -3, 7, 10, 100, -128, 127}) {
          const Expr divisor = ir::imm_like({t, lanes}, d);
          const Buffer out = Buffer::make("out", t, {n});
          outputs.push_back({out, ir::Binary::make(op, load_vec(a, i * lanes, lanes), divisor)});
        }
      }
      expect_like_interp(elementwise({a}, outputs, i, lanes), {edge_values(t, n, 3)});
    }
  }
}

TEST(ConstantDivisionTest, LoopVariablesBelowZeroStaySigned) {
  const Buffer out = Buffer::make("out", DType::kI64, {32, 4});
  const Expr i = ir::Var::make("i");
  const Expr x = i - 16;
  std::vector<ir::Stmt> stores;
  const Expr values[] = {ir::floor_div(x, ir::int_imm(3)), ir::floor_mod(x, ir::int_imm(3)),
                         ir::div(x, ir::int_imm(4)), ir::mod(i, ir::int_imm(5))};
  for (int j = 0; j < 4; ++j)
    stores.push_back(ir::Store::make(out, {i, ir::int_imm(j)}, values[j]));
  const ir::Func func{
      "division", {out}, 1, ir::For::make(i, 32, ir::LoopKind::kSerial, ir::Block::make(stores))};
  std::vector<std::int64_t> got(128);
  run(func, {got.data()});
  for (std::size_t k = 0; k < 32; ++k) {
    const int v = static_cast<int>(k) - 16;
    const int floor_q = v >= 0 ? v / 3 : -((2 - v) / 3);
    EXPECT_EQ(got[4 * k], floor_q);
    EXPECT_EQ(got[4 * k + 1], v - 3 * floor_q);
    EXPECT_EQ(got[4 * k + 2], v / 4);
    EXPECT_EQ(got[4 * k + 3], static_cast<int>(k) % 5);
  }
}

TEST(ContractionTest, MultiplyAddIsFused) {
  const Buffer a = Buffer::make("a", DType::kF32, {4});
  const Buffer out = Buffer::make("out", DType::kF32, {4});
  const Expr i = ir::Var::make("i");
  const Expr x = load_vec(a, i * 4, 4);
  const auto text = emit_asm(elementwise({a}, {{out, x * x + x}}, i, 4), aarch64_target());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(count(*text, "fmla"), 1);
  EXPECT_EQ(count(*text, "fmul"), 0);
}

// maxps forgets a NaN that is its first operand.
TEST(ArithOnX86, MaximumKeepsNanWithoutBlending) {
  const Buffer a = Buffer::make("a", DType::kF32, {64});
  const Buffer b = Buffer::make("b", DType::kF32, {64});
  const Buffer out = Buffer::make("out", DType::kF32, {64});
  const Expr i = ir::Var::make("i");
  for (const target::Target& target : {avx2_target(), avx512_target()}) {
    const int lanes = target.vector_bytes / 4;
    const Expr value = ir::max(load_vec(a, i * lanes, lanes), load_vec(b, i * lanes, lanes));
    const auto text =
        emit_asm(elementwise({a, b}, {{out, value}}, i, lanes), target, {.verify_llvm = true});
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_EQ(count(*text, "vmaxps"), 1) << *text;
    EXPECT_EQ(count(*text, "vcmp"), 1) << *text;
    EXPECT_EQ(count(*text, "vblendv"), 0) << *text;
    EXPECT_EQ(count(*text, "{%k1}"), lanes == 16 ? 1 : 0) << *text;
  }
}

}  // namespace
}  // namespace tessera::codegen
