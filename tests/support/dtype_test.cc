#include "tessera/support/dtype.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/support/rng.h"

namespace tessera {
namespace {

TEST(DType, NamesRoundTrip) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto t = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_text(to_text(t)), t);
    EXPECT_EQ(is_float(t) + is_signed_int(t) + is_unsigned_int(t) + (t == DType::kBool), 1)
        << to_text(t);
  }
  EXPECT_EQ(dtype_from_text("f31"), std::nullopt);
  EXPECT_EQ(dtype_from_text(""), std::nullopt);
}

TEST(DType, ComputeTypeWidensOnlyHalves) {
  EXPECT_EQ(compute_type(DType::kF16), DType::kF32);
  EXPECT_EQ(compute_type(DType::kBF16), DType::kF32);
  EXPECT_EQ(compute_type(DType::kF8E5M2), DType::kF32);
  EXPECT_EQ(compute_type(DType::kF64), DType::kF64);
  EXPECT_EQ(compute_type(DType::kI8), DType::kI8);
}

TEST(DType, WrapTable) {
  EXPECT_EQ(wrap_int(DType::kI8, 128), -128);
  EXPECT_EQ(wrap_int(DType::kU8, -1), 255);
  EXPECT_EQ(wrap_int(DType::kI16, 40000), 40000 - 65536);
  EXPECT_EQ(wrap_int(DType::kU16, 65536), 0);
  EXPECT_EQ(wrap_int(DType::kI32, std::int64_t{1} << 31), -(std::int64_t{1} << 31));
  EXPECT_EQ(wrap_int(DType::kU32, -1), 0xffffffff);
  EXPECT_EQ(wrap_int(DType::kI64, std::numeric_limits<std::int64_t>::min()),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(wrap_int(DType::kBool, 2), 1);
  EXPECT_EQ(wrap_int(DType::kBool, 0), 0);
}

TEST(DType, EveryHalfSurvivesFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float f = f16_to_f32(half);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(f)))) << bits;
      EXPECT_EQ(f32_to_f16(f) & 0x8000, half & 0x8000) << bits;
    } else {
      EXPECT_EQ(f32_to_f16(f), half) << bits;
    }
    const float b = bf16_to_f32(half);
    if (std::isnan(b)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(b)))) << bits;
    } else {
      EXPECT_EQ(f32_to_bf16(b), half) << bits;
    }
  }
}

// Midpoints between neighbours go to the even one, anything off the midpoint to the nearer one.
template <class ToFloat, class FromFloat>
void check_rounding(ToFloat to_float, FromFloat from_float, std::uint16_t last_finite) {
  for (std::uint16_t low = 0; low < last_finite; ++low) {
    const float a = to_float(low);
    const float b = to_float(static_cast<std::uint16_t>(low + 1));
    const float middle = a + (b - a) / 2;  // exact in f32
    const auto even = static_cast<std::uint16_t>(low % 2 == 0 ? low : low + 1);
    ASSERT_EQ(from_float(middle), even) << low;
    ASSERT_EQ(from_float(-middle), even | 0x8000) << low;
    ASSERT_EQ(from_float(std::nextafterf(middle, 0.0f)), low) << low;
    ASSERT_EQ(from_float(std::nextafterf(middle, INFINITY)), low + 1) << low;
  }
}

TEST(DType, F16RoundsToNearestEven) { check_rounding(f16_to_f32, f32_to_f16, 0x7bff); }

TEST(DType, BF16RoundsToNearestEven) { check_rounding(bf16_to_f32, f32_to_bf16, 0x7f7f); }

TEST(DType, HalvesOverflowToInfinity) {
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_bf16(INFINITY), 0x7f80);
}

TEST(DType, RoundFloatIsIdempotent) {
  Rng rng(1);
  for (int i = 0; i < 10000; ++i) {
    const double v = std::bit_cast<double>(rng.next());
    for (const DType t : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      const double once = round_float(t, v);
      if (!std::isnan(once)) {
        EXPECT_EQ(round_float(t, once), once);
      }
    }
  }
  EXPECT_EQ(round_float(DType::kF32, 0.1), static_cast<double>(0.1f));
  EXPECT_EQ(round_float(DType::kF64, 0.1), 0.1);
}

}  // namespace
}  // namespace tessera
