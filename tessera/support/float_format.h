// How the numbers of a float type are stored. A type is one row of the table (dtype.cc): its
// conversions, limits and roundings all follow from that.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tessera/support/dtype.h"

namespace tessera {

struct FloatFormat {
  int bits = 0, exponent_bits = 0, bias = 0;
  // As IEEE 754 has them: infinities, and NaN above them. Otherwise all ones are NaN, there is no
  // infinity, and what is too large becomes NaN.
  bool infinities = true;

  constexpr int fraction_bits() const { return bits - 1 - exponent_bits; }
  constexpr bool has_range_of_f32() const { return exponent_bits == 8; }
  // Patterns without their sign.
  constexpr std::uint32_t sign() const { return 1U << (bits - 1); }
  constexpr std::uint32_t overflow() const {
    return infinities ? ((1U << exponent_bits) - 1) << fraction_bits() : sign() - 1;
  }
  constexpr std::uint32_t nan() const {
    return infinities ? overflow() | 1U << (fraction_bits() - 1) : overflow();
  }
  // How far the fraction and the exponent of f32 are away from its own.
  constexpr int shift() const { return 23 - fraction_bits(); }
  constexpr std::uint32_t rebias() const { return static_cast<std::uint32_t>(127 - bias) << 23; }
  // Added in f32, it leaves subnormal numbers in the last bits of the sum.
  constexpr std::uint32_t subnormal_one() const {
    return static_cast<std::uint32_t>(151 - bias - fraction_bits()) << 23;
  }
  // The distance of subnormal numbers.
  double smallest() const { return std::ldexp(1.0, 1 - bias - fraction_bits()); }
  double smallest_normal() const { return std::ldexp(1.0, 1 - bias); }
  double largest() const {
    const int unused = infinities ? 0 : 1;  // the last fraction of the last exponent is NaN
    return std::ldexp(2 - std::ldexp(1.0, unused - fraction_bits()), bias + unused);
  }
  // Whether every number of the other is one of its own.
  bool holds(const FloatFormat& other) const {
    return fraction_bits() >= other.fraction_bits() && largest() >= other.largest() &&
           smallest() <= other.smallest();
  }
  double unit_roundoff() const { return std::ldexp(1.0, -fraction_bits() - 1); }
  int integer_bits() const { return fraction_bits() + 1; }  // of integers that it holds exactly
};

const FloatFormat& float_format(DType t);  // of a float type

// Of formats of at most 16 bits.
constexpr float decode(const FloatFormat& f, std::uint32_t bits) {
  const std::uint32_t sign = (bits & f.sign()) << (32 - f.bits);
  const std::uint32_t magnitude = bits & (f.sign() - 1), wide = magnitude << f.shift();
  if (f.has_range_of_f32()) return std::bit_cast<float>(sign | wide);
  if (magnitude >= f.overflow())
    return std::bit_cast<float>(sign | 0x7f800000U | (f.infinities ? wide : 0x400000U));
  if (magnitude >> f.fraction_bits() != 0) return std::bit_cast<float>(sign | (wide + f.rebias()));
  const std::uint32_t unit = static_cast<std::uint32_t>(128 - f.bias - f.fraction_bits()) << 23;
  const float value = static_cast<float>(magnitude) * std::bit_cast<float>(unit);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

// To nearest, ties to even; NaN stays NaN.
constexpr std::uint32_t encode(const FloatFormat& f, float v) {
  const auto x = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t sign = (x & 0x80000000U) >> (32 - f.bits), magnitude = x & 0x7fffffffU;
  if (magnitude > 0x7f800000U)
    return sign | f.nan() | (f.infinities ? (magnitude & 0x7fffffU) >> f.shift() : 0);
  // Below the normal numbers the adder of f32 rounds at the right bit.
  if (!f.has_range_of_f32() && magnitude < f.rebias() + 0x800000U) {
    const std::uint32_t one = f.subnormal_one();
    const float sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(one);
    return sign | (std::bit_cast<std::uint32_t>(sum) - one);
  }
  const std::uint32_t odd = (magnitude >> f.shift()) & 1U;
  const std::uint32_t half = (1U << (f.shift() - 1)) - 1;
  const std::uint32_t rounded = (magnitude - f.rebias() + half + odd) >> f.shift();
  return sign | std::min(rounded, f.overflow());
}

}  // namespace tessera
