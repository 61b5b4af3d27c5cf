// Element types and their facts: one table (dtype.cc) holds name, size and class of each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

enum class DType : std::uint8_t {
  kBool,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kF8E4M3,  // without infinities, ONNX's float8e4m3fn
  kF8E5M2
};
inline constexpr int kDTypes = 15;  // how many there are

const char* to_text(DType t);  // "f32", "i8", "bool", ...
std::optional<DType> dtype_from_text(std::string_view name);
int size_bytes(DType t);  // bool takes one byte
bool is_float(DType t);
bool is_signed_int(DType t);
bool is_unsigned_int(DType t);  // bool excluded
inline bool is_int(DType t) { return is_signed_int(t) || is_unsigned_int(t); }

// The type in which arithmetic on `t` is carried out and reductions accumulate: f32 for shorter
// floats, `t` otherwise.
DType compute_type(DType t);

// Wraps (two's complement) `v` to the range of integer type `t`; bool becomes v != 0.
std::int64_t wrap_int(DType t, std::int64_t v);
// Rounds `v` to the nearest value representable in float type `t` (ties to even).
double round_float(DType t, double v);

float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float v);  // round to nearest even, overflow to infinity
float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float v);  // round to nearest even, NaN stays NaN

}  // namespace tessera
