// The table of float types against its definition: numbers are (-1)^s * 2^(e - bias) * 1.f.
#include "tessera/support/float_format.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/support/rng.h"

namespace tessera {
namespace {

constexpr DType kShort[] = {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2};

// By the definition, in f64, which holds them all; NaN where there is no number.
double defined(const FloatFormat& f, std::uint32_t bits) {
  const int fraction = static_cast<int>(bits & ((1U << f.fraction_bits()) - 1));
  const int exponent = static_cast<int>(bits >> f.fraction_bits() & ((1U << f.exponent_bits) - 1));
  const bool last = exponent == (1 << f.exponent_bits) - 1;
  const double sign = (bits & f.sign()) != 0 ? -1 : 1;
  if (last && f.infinities)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  if (last && fraction == (1 << f.fraction_bits()) - 1)
    return std::numeric_limits<double>::quiet_NaN();
  const int hidden = exponent == 0 ? 0 : 1 << f.fraction_bits();
  return sign * std::ldexp(hidden + fraction, std::max(exponent, 1) - f.bias - f.fraction_bits());
}

TEST(FloatFormat, EveryPatternIsTheNumberOfItsDefinition) {
  for (const DType t : kShort) {
    const FloatFormat& f = float_format(t);
    double largest = 0;
    for (std::uint32_t bits = 0; bits < 2 * f.sign(); ++bits) {
      const double want = defined(f, bits);
      const float got = decode(f, bits);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << to_text(t) << ' ' << bits;
        ASSERT_TRUE(std::isnan(decode(f, encode(f, got)))) << to_text(t) << ' ' << bits;
        continue;
      }
      ASSERT_EQ(got, want) << to_text(t) << ' ' << bits;
      ASSERT_EQ(std::signbit(got), (bits & f.sign()) != 0) << to_text(t) << ' ' << bits;
      ASSERT_EQ(encode(f, got), bits) << to_text(t);
      if (std::isfinite(want)) largest = std::max(largest, want);
    }
    EXPECT_EQ(f.largest(), largest) << to_text(t);
    EXPECT_EQ(f.smallest(), defined(f, 1)) << to_text(t);
    EXPECT_EQ(f.smallest_normal(), defined(f, 1U << f.fraction_bits())) << to_text(t);
  }
}

// The nearest of all patterns without a sign, the even one of two.
std::uint32_t nearest(const FloatFormat& f, const std::vector<double>& finite, double v) {
  const auto above = std::lower_bound(finite.begin(), finite.end(), v);
  const auto high = static_cast<std::uint32_t>(above - finite.begin());
  if (high < finite.size() && *above == v) return high;
  if (high == finite.size()) {  // as if there were one more number
    const double step = finite[high - 1] - finite[high - 2];
    const double middle = finite[high - 1] + step / 2;
    const bool stays = v < middle || (v == middle && (high - 1) % 2 == 0);
    return stays ? high - 1 : f.overflow();
  }
  const double down = v - finite[high - 1], up = *above - v;
  if (down != up) return down < up ? high - 1 : high;
  return high % 2 == 0 ? high : high - 1;
}

TEST(FloatFormat, RoundsToNearestEven) {
  Rng rng(7);
  for (const DType t : kShort) {
    const FloatFormat& f = float_format(t);
    std::vector<double> finite;
    for (std::uint32_t bits = 0; std::isfinite(defined(f, bits)); ++bits)
      finite.push_back(defined(f, bits));
    const auto check = [&](std::uint32_t x) {
      const auto v = std::bit_cast<float>(x);
      if (std::isnan(v)) return;
      const std::uint32_t sign = std::signbit(v) ? f.sign() : 0;
      ASSERT_EQ(encode(f, v), sign | nearest(f, finite, std::abs(static_cast<double>(v))))
          << to_text(t) << ' ' << v;
    };
    for (int i = 0; i < 1'000'000; ++i) check(static_cast<std::uint32_t>(rng.next()));
    // Neighbours and ties of its numbers.
    for (std::size_t i = 1; i < finite.size(); ++i) {
      const auto middle = static_cast<float>((finite[i - 1] + finite[i]) / 2);
      const auto x = std::bit_cast<std::uint32_t>(middle);
      for (const std::uint32_t near : {x - 1, x, x + 1, x | 0x80000000U}) check(near);
    }
  }
}

TEST(FloatFormat, HoldsWhatNeedsNoMoreBits) {
  const auto holds = [](DType a, DType b) { return float_format(a).holds(float_format(b)); };
  for (const DType t : kShort) {
    EXPECT_TRUE(holds(DType::kF32, t) && holds(DType::kF64, t) && holds(t, t)) << to_text(t);
    EXPECT_FALSE(holds(t, DType::kF32)) << to_text(t);
  }
  EXPECT_TRUE(holds(DType::kF16, DType::kF8E5M2) && holds(DType::kBF16, DType::kF8E4M3));
  EXPECT_FALSE(holds(DType::kF16, DType::kBF16) || holds(DType::kBF16, DType::kF16));
  EXPECT_FALSE(holds(DType::kF8E4M3, DType::kF8E5M2));
}

}  // namespace
}  // namespace tessera
