#include "tessera/frontend/onnx/narrow_types.h"

#include <cmath>
#include <limits>

#include "tessera/support/check.h"

namespace tessera::onnx {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <unsigned width>
double unsigned_value(unsigned bits) {
  return bits;
}

template <unsigned width>
double signed_value(unsigned bits) {
  const int value = static_cast<int>(bits);
  return bits >> (width - 1) != 0 ? value - (1 << width) : value;
}

// A sign, an exponent and a mantissa with its hidden bit; no infinity, no NaN.
double finite(unsigned bits, int exponent_bits, int mantissa_bits, int bias) {
  const unsigned mantissa = bits & ((1U << mantissa_bits) - 1);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1U << exponent_bits) - 1));
  const bool negative = bits >> (exponent_bits + mantissa_bits) != 0;
  const unsigned hidden = exponent == 0 ? 0 : 1U << mantissa_bits;
  const int scale = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
  const double value = std::ldexp(static_cast<double>(mantissa + hidden), scale);
  return negative ? -value : value;
}

// The pattern of negative zero is the only NaN.
double e4m3fnuz(unsigned bits) { return bits == 0x80 ? kNan : finite(bits, 4, 3, 8); }
double e5m2fnuz(unsigned bits) { return bits == 0x80 ? kNan : finite(bits, 5, 2, 16); }

double e2m1(unsigned bits) { return finite(bits, 2, 1, 1); }

// A power of two, without sign.
double e8m0(unsigned bits) {
  return bits == 0xff ? kNan : std::ldexp(1.0, static_cast<int>(bits) - 127);
}

constexpr NarrowType kTypes[] = {
    {"float4e2m1", 4, DType::kF32, e2m1},         {"float8e4m3fnuz", 8, DType::kF32, e4m3fnuz},
    {"float8e5m2fnuz", 8, DType::kF32, e5m2fnuz}, {"float8e8m0", 8, DType::kF32, e8m0},
    {"int2", 2, DType::kI8, signed_value<2>},     {"int4", 4, DType::kI8, signed_value<4>},
    {"uint2", 2, DType::kU8, unsigned_value<2>},  {"uint4", 4, DType::kU8, unsigned_value<4>},
};

}  // namespace

std::span<const NarrowType> narrow_types() { return kTypes; }

const NarrowType* find_narrow_type(std::string_view name) {
  for (const NarrowType& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

std::size_t packed_bytes(const NarrowType& type, std::int64_t count) {
  const int per_byte = 8 / type.bits;
  return static_cast<std::size_t>(count / per_byte + (count % per_byte != 0 ? 1 : 0));
}

HostTensor widen(const NarrowType& type, const Shape& shape, std::string_view bytes) {
  HostTensor out(type.wide, shape);
  const int per_byte = 8 / type.bits;
  const unsigned mask = (1U << type.bits) - 1;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[static_cast<std::size_t>(i / per_byte)]);
    const double value = type.decode((byte >> (i % per_byte * type.bits)) & mask);
    if (is_float(type.wide)) {
      out.set_float(i, value);
    } else {
      out.set_int(i, static_cast<std::int64_t>(value));
    }
  }
  return out;
}

std::string pack(const NarrowType& type, const HostTensor& wide) {
  TESSERA_CHECK(is_int(type.wide) && wide.dtype() == type.wide, "{} of {}", type.name,
                to_text(wide.dtype()));
  std::string bytes(packed_bytes(type, wide.size()), '\0');
  const int per_byte = 8 / type.bits;
  const std::uint64_t mask = (1U << type.bits) - 1;
  for (std::int64_t i = 0; i < wide.size(); ++i) {
    const std::uint64_t bits = static_cast<std::uint64_t>(wide.get_int(i)) & mask;
    char& byte = bytes[static_cast<std::size_t>(i / per_byte)];
    byte = static_cast<char>(static_cast<unsigned char>(byte) |
                             static_cast<unsigned char>(bits << (i % per_byte * type.bits)));
  }
  return bytes;
}

}  // namespace tessera::onnx
