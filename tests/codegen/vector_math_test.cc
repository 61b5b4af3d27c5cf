#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "accuracy.h"
#include "kernel_runner.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::Intrinsic;

class VectorMathTest : public ::testing::TestWithParam<Intrinsic> {};

std::string name_of(const ::testing::TestParamInfo<Intrinsic>& param) {
  return ir::to_text(param.param);
}

TEST_P(VectorMathTest, StridedInputsStayWithinTheStatedError) {
  const FunctionCase* function = function_case(GetParam());
  ASSERT_NE(function, nullptr);
  const Accuracy seen = measure_accuracy(*function, 0, 4093);  // prime: every mantissa pattern
  RecordProperty("max_ulps", std::to_string(seen.max_ulps));
  std::printf("%s: %.3f ulp at %a, %lld inputs\n", ir::to_text(GetParam()), seen.max_ulps,
              static_cast<double>(seen.worst), static_cast<long long>(seen.tested));
  EXPECT_EQ(seen.failure, "");
  EXPECT_GT(seen.tested, 1 << 20);
  EXPECT_LE(seen.max_ulps, function->bound) << "at " << seen.worst;
}

float scalar(Intrinsic fn, float x) {
  const ir::Buffer in = ir::Buffer::make("in", DType::kF32, {1});
  const ir::Buffer out = ir::Buffer::make("out", DType::kF32, {1});
  const ir::Expr i = ir::Var::make("i");
  float result = 0;
  run(elementwise({in}, {{out, ir::Call::make(fn, {load_vec(in, i, 1)})}}, i, 1), {&x, &result});
  return result;
}

TEST_P(VectorMathTest, TheSameBitsForEveryNumberOfLanes) {
  const std::int64_t n = 48;
  std::vector<float> in;
  for (std::int64_t i = 0; i < n; ++i) in.push_back(0.37f * static_cast<float>(i - 20));
  std::vector<float> want;
  for (const int lanes : {1, 2, 3, 4, 8, 16}) {
    const ir::Buffer a = ir::Buffer::make("a", DType::kF32, {n});
    const ir::Buffer out = ir::Buffer::make("out", DType::kF32, {n});
    const ir::Expr i = ir::Var::make("i");
    std::vector<float> got(static_cast<std::size_t>(n));
    run(elementwise({a}, {{out, ir::Call::make(GetParam(), {load_vec(a, i * lanes, lanes)})}}, i,
                    lanes),
        {in.data(), got.data()});
    if (want.empty()) want = got;
    for (std::size_t k = 0; k < got.size(); ++k) {
      if (std::isnan(want[k])) continue;
      EXPECT_EQ(got[k], want[k]) << lanes << " lanes, x = " << in[k];
    }
  }
}

TEST_P(VectorMathTest, StraightLineOnEveryTarget) {
  const ir::Buffer in = ir::Buffer::make("in", DType::kF32, {32});
  const ir::Buffer out = ir::Buffer::make("out", DType::kF32, {32});
  const ir::Expr i = ir::Var::make("i");
  for (const target::Target& target : {aarch64_target(), avx2_target(), avx512_target()}) {
    const int lanes = target.vector_bytes / 4;
    const ir::Expr value = ir::Call::make(GetParam(), {load_vec(in, i * lanes, lanes)});
    const auto text =
        emit_asm(elementwise({in}, {{out, value}}, i, lanes), target, {.verify_llvm = true});
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_EQ(count(*text, "call") + count(*text, "\tbl\t"), 0) << *text;
    EXPECT_GE(count(*text, target.arch == target::Arch::kAArch64 ? "fmla" : "vfm"), 5) << *text;
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, VectorMathTest,
                         ::testing::Values(Intrinsic::kExp, Intrinsic::kLog, Intrinsic::kTanh,
                                           Intrinsic::kErf),
                         name_of);

TEST(VectorMathEdgeTest, ExpAtItsEnds) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(scalar(Intrinsic::kExp, 88.72284f), kInf);
  EXPECT_LT(scalar(Intrinsic::kExp, 88.7228317f), kInf);
  EXPECT_EQ(scalar(Intrinsic::kExp, kInf), kInf);
  EXPECT_EQ(scalar(Intrinsic::kExp, -kInf), 0);
  EXPECT_EQ(scalar(Intrinsic::kExp, -1e30f), 0);
  EXPECT_EQ(scalar(Intrinsic::kExp, 0), 1);
  EXPECT_GT(scalar(Intrinsic::kExp, -87.6f), 0);
}

TEST(VectorMathEdgeTest, LogAtItsEnds) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(scalar(Intrinsic::kLog, 0), -kInf);
  EXPECT_EQ(scalar(Intrinsic::kLog, -0.0f), -kInf);
  EXPECT_EQ(scalar(Intrinsic::kLog, kInf), kInf);
  EXPECT_TRUE(std::isnan(scalar(Intrinsic::kLog, -1)));
  EXPECT_TRUE(std::isnan(scalar(Intrinsic::kLog, -kInf)));
  EXPECT_TRUE(std::isnan(scalar(Intrinsic::kLog, -1e-45f)));
  EXPECT_EQ(scalar(Intrinsic::kLog, 1), 0);
}

TEST(VectorMathEdgeTest, OddFunctionsKeepTheSignOfZeroAndSaturate) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Intrinsic fn : {Intrinsic::kTanh, Intrinsic::kErf}) {
    EXPECT_TRUE(std::signbit(scalar(fn, -0.0f)));
    EXPECT_FALSE(std::signbit(scalar(fn, 0.0f)));
    EXPECT_EQ(scalar(fn, kInf), 1);
    EXPECT_EQ(scalar(fn, -kInf), -1);
    EXPECT_EQ(scalar(fn, 12), 1);
    EXPECT_TRUE(std::isnan(scalar(fn, NAN)));
  }
}

}  // namespace
}  // namespace tessera::codegen
