#include "tessera/support/dtype.h"

#include <array>
#include <bit>
#include <cmath>

#include "tessera/support/check.h"

namespace tessera {
namespace {

enum class Class { kBool, kSigned, kUnsigned, kFloat };

struct Row {
  DType type;
  const char* name;
  int bytes;
  Class cls;
};

constexpr std::array kRows = {
    Row{DType::kBool, "bool", 1, Class::kBool},   Row{DType::kI8, "i8", 1, Class::kSigned},
    Row{DType::kU8, "u8", 1, Class::kUnsigned},   Row{DType::kI16, "i16", 2, Class::kSigned},
    Row{DType::kU16, "u16", 2, Class::kUnsigned}, Row{DType::kI32, "i32", 4, Class::kSigned},
    Row{DType::kU32, "u32", 4, Class::kUnsigned}, Row{DType::kI64, "i64", 8, Class::kSigned},
    Row{DType::kU64, "u64", 8, Class::kUnsigned}, Row{DType::kF16, "f16", 2, Class::kFloat},
    Row{DType::kBF16, "bf16", 2, Class::kFloat},  Row{DType::kF32, "f32", 4, Class::kFloat},
    Row{DType::kF64, "f64", 8, Class::kFloat},
};

const Row& row(DType t) { return kRows[static_cast<std::size_t>(t)]; }

}  // namespace

const char* to_text(DType t) { return row(t).name; }

std::optional<DType> dtype_from_text(std::string_view name) {
  for (const Row& r : kRows) {
    if (name == r.name) return r.type;
  }
  return std::nullopt;
}

int size_bytes(DType t) { return row(t).bytes; }
bool is_float(DType t) { return row(t).cls == Class::kFloat; }
bool is_signed_int(DType t) { return row(t).cls == Class::kSigned; }
bool is_unsigned_int(DType t) { return row(t).cls == Class::kUnsigned; }

DType compute_type(DType t) { return t == DType::kF16 || t == DType::kBF16 ? DType::kF32 : t; }

std::int64_t wrap_int(DType t, std::int64_t v) {
  switch (t) {
    case DType::kBool:
      return v != 0 ? 1 : 0;
    case DType::kI8:
      return static_cast<std::int8_t>(v);
    case DType::kU8:
      return static_cast<std::uint8_t>(v);
    case DType::kI16:
      return static_cast<std::int16_t>(v);
    case DType::kU16:
      return static_cast<std::uint16_t>(v);
    case DType::kI32:
      return static_cast<std::int32_t>(v);
    case DType::kU32:
      return static_cast<std::uint32_t>(v);
    default:
      return v;
  }
}

double round_float(DType t, double v) {
  switch (t) {
    case DType::kF16:
      return f16_to_f32(f32_to_f16(static_cast<float>(v)));
    case DType::kBF16:
      return bf16_to_f32(f32_to_bf16(static_cast<float>(v)));
    case DType::kF32:
      return static_cast<float>(v);
    default:
      return v;
  }
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t f32_to_f16(float v) {
  const std::uint32_t x = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t sign = (x >> 16) & 0x8000u;
  const std::uint32_t magnitude = x & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x47800000u)
    return static_cast<std::uint16_t>(sign | 0x7c00u);  // 2^16 and above
  if (magnitude < 0x38800000u) {  // subnormal half: the float adder rounds at the right bit
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;  // ulp of 0.5 is 2^-24
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x3f000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  const std::uint32_t rounded = magnitude - 0x38000000u + 0xfffu + odd;
  return static_cast<std::uint16_t>(sign | (rounded >> 13));  // carries into infinity when it must
}

float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t f32_to_bf16(float v) {
  const std::uint32_t x = std::bit_cast<std::uint32_t>(v);
  if (std::isnan(v)) return static_cast<std::uint16_t>((x >> 16) | 0x40u);
  return static_cast<std::uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
}

}  // namespace tessera
