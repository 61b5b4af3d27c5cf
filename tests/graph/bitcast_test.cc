// bitcast: the same bits, whatever they mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node_runner.h"

namespace tessera::graph::testing {
namespace {

using ::testing::HasSubstr;

Attrs to(DType t) { return {{"to", std::string(to_text(t))}}; }

TEST(Bitcast, EverySizeThereAndBack) {
  Rng rng(3);
  for (const auto& [a, b] :
       {std::pair(DType::kF32, DType::kI32), std::pair(DType::kF32, DType::kU32),
        std::pair(DType::kF64, DType::kI64), std::pair(DType::kF16, DType::kU16),
        std::pair(DType::kBF16, DType::kI16), std::pair(DType::kF16, DType::kBF16),
        std::pair(DType::kI8, DType::kU8)}) {
    const HostTensor x = random_tensor(a, {3, 5}, rng);
    const HostTensor bits = expect_agreement("bitcast", to(b), {x}).at(0);
    EXPECT_EQ(bits.dtype(), b);
    const HostTensor back = expect_agreement("bitcast", to(a), {bits}).at(0);
    EXPECT_EQ(tessera::testing::mismatch(back, x, 0), "") << to_text(a) << ' ' << to_text(b);
  }
}

TEST(Bitcast, KnownPatterns) {
  HostTensor x(DType::kF32, {2});
  x.set_float(0, 1);
  x.set_float(1, -2);
  const HostTensor y = expect_agreement("bitcast", to(DType::kU32), {x}).at(0);
  EXPECT_EQ(y.get_int(0), 0x3f800000);
  EXPECT_EQ(y.get_int(1), 0xc0000000);
}

TEST(Bitcast, RefusesOtherSizesAndBool) {
  const HostTensor x(DType::kF32, {2});
  EXPECT_THAT(refusal("bitcast", to(DType::kI64), {x}),
              HasSubstr("the bits of f32 cannot be read as i64"));
  EXPECT_NE(refusal("bitcast", to(DType::kBool), {HostTensor(DType::kU8, {1})}), "");
}

}  // namespace
}  // namespace tessera::graph::testing
