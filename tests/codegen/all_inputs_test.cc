// All 2^32 f32 inputs of each function with a fast version: minutes each.
#include <cstdio>

#include <gtest/gtest.h>

#include "accuracy.h"

namespace tessera::codegen {
namespace {

class AllInputsTest : public ::testing::TestWithParam<ir::Intrinsic> {};

TEST_P(AllInputsTest, StayWithinTheStatedError) {
  const FunctionCase* function = function_case(GetParam());
  ASSERT_NE(function, nullptr);
  const Accuracy seen = measure_accuracy(*function, 0, 1);
  std::printf("%s: %.3f ulp at %a, %lld inputs\n", ir::to_text(GetParam()), seen.max_ulps,
              static_cast<double>(seen.worst), static_cast<long long>(seen.tested));
  EXPECT_EQ(seen.failure, "");
  EXPECT_EQ(seen.tested, std::int64_t{1} << 32);
  EXPECT_LE(seen.max_ulps, function->bound) << "at " << seen.worst;
}

INSTANTIATE_TEST_SUITE_P(Functions, AllInputsTest,
                         ::testing::Values(ir::Intrinsic::kExp, ir::Intrinsic::kLog,
                                           ir::Intrinsic::kTanh, ir::Intrinsic::kErf),
                         [](const auto& param) { return std::string(ir::to_text(param.param)); });

}  // namespace
}  // namespace tessera::codegen
