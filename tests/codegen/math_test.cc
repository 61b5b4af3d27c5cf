#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "tessera/lang/ir/build.h"
#include "tests/testing/testing.h"

namespace tessera::codegen {
namespace {

using ir::Intrinsic;

class MathTest : public ::testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(MathTest, EveryFunctionLikeTheInterpreter) {
  const auto [t, lanes] = GetParam();
  const std::int64_t n = 120;
  const ir::Buffer a = ir::Buffer::make("a", t, {n});
  const ir::Expr i = ir::Var::make("i");
  const ir::Expr x = load_vec(a, i * lanes, lanes);
  std::vector<Output> outputs;
  for (const Intrinsic fn :
       {Intrinsic::kExp,   Intrinsic::kLog,   Intrinsic::kTanh,  Intrinsic::kErf,
        Intrinsic::kSqrt,  Intrinsic::kSin,   Intrinsic::kCos,   Intrinsic::kTan,
        Intrinsic::kAsin,  Intrinsic::kAcos,  Intrinsic::kAtan,  Intrinsic::kSinh,
        Intrinsic::kCosh,  Intrinsic::kAsinh, Intrinsic::kAcosh, Intrinsic::kAtanh,
        Intrinsic::kAbs,   Intrinsic::kFloor, Intrinsic::kCeil,  Intrinsic::kRound,
        Intrinsic::kTrunc, Intrinsic::kPow,   Intrinsic::kFma}) {
    std::vector<ir::Expr> args(fn == Intrinsic::kPow ? 2 : fn == Intrinsic::kFma ? 3 : 1, x);
    outputs.push_back({ir::Buffer::make(ir::to_text(fn), t, {n}), ir::Call::make(fn, args)});
  }
  for (const Intrinsic fn : {Intrinsic::kIsNan, Intrinsic::kIsInf}) {
    outputs.push_back(
        {ir::Buffer::make(ir::to_text(fn), DType::kBool, {n}), ir::Call::make(fn, {x})});
  }
  expect_like_interp(elementwise({a}, outputs, i, lanes), {edge_values(t, n, 8)},
                     testing::tolerance(t, 1));
}

INSTANTIATE_TEST_SUITE_P(Floats, MathTest,
                         ::testing::Combine(::testing::Values(DType::kF16, DType::kBF16,
                                                              DType::kF32, DType::kF64),
                                            ::testing::Values(1, 4, 5)),
                         type_and_lanes);

TEST(IntegerCallTest, AbsAndNot) {
  for (const DType t : {DType::kI8, DType::kU8, DType::kI32, DType::kI64, DType::kU64}) {
    const ir::Buffer a = ir::Buffer::make("a", t, {64});
    const ir::Expr i = ir::Var::make("i");
    const ir::Expr x = load_vec(a, i * 4, 4);
    expect_like_interp(
        elementwise({a},
                    {{ir::Buffer::make("abs", t, {64}), ir::Call::make(Intrinsic::kAbs, {x})},
                     {ir::Buffer::make("not", t, {64}), ir::Call::make(Intrinsic::kNot, {x})}},
                    i, 4),
        {edge_values(t, 64, 9)});
  }
}

// Its f64 form calls the C function of that name.
TEST(MathNames, AKernelMayBearTheNameOfACFunction) {
  const ir::Buffer a = ir::Buffer::make("a", DType::kF64, {3});
  const ir::Buffer out = ir::Buffer::make("out", DType::kF64, {3});
  const ir::Expr i = ir::Var::make("i");
  const ir::Expr value = ir::Load::make(a, {i});
  const ir::Stmt body =
      ir::For::make(i, 3, ir::LoopKind::kSerial,
                    ir::Store::make(out, {i}, ir::call(ir::Intrinsic::kPow, {value, value})));
  HostTensor x(DType::kF64, {3});
  for (int k = 0; k < 3; ++k) x.set_float(k, 0.5 + k);
  expect_like_interp({"pow", {a, out}, 1, body}, {x});
}

}  // namespace
}  // namespace tessera::codegen
