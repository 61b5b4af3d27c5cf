#include "tessera/support/dtype.h"

#include <array>

#include "tessera/support/float_format.h"

namespace tessera {
namespace {

enum class Class { kBool, kSigned, kUnsigned, kFloat };

struct Row {
  DType type;
  const char* name;
  int bytes;
  Class cls;
  FloatFormat format = {};  // of floats
};

constexpr std::array kRows = {
    Row{DType::kBool, "bool", 1, Class::kBool},
    Row{DType::kI8, "i8", 1, Class::kSigned},
    Row{DType::kU8, "u8", 1, Class::kUnsigned},
    Row{DType::kI16, "i16", 2, Class::kSigned},
    Row{DType::kU16, "u16", 2, Class::kUnsigned},
    Row{DType::kI32, "i32", 4, Class::kSigned},
    Row{DType::kU32, "u32", 4, Class::kUnsigned},
    Row{DType::kI64, "i64", 8, Class::kSigned},
    Row{DType::kU64, "u64", 8, Class::kUnsigned},
    Row{DType::kF16, "f16", 2, Class::kFloat, {16, 5, 15}},
    Row{DType::kBF16, "bf16", 2, Class::kFloat, {16, 8, 127}},
    Row{DType::kF32, "f32", 4, Class::kFloat, {32, 8, 127}},
    Row{DType::kF64, "f64", 8, Class::kFloat, {64, 11, 1023}},
    Row{DType::kF8E4M3, "f8e4m3", 1, Class::kFloat, {8, 4, 7, false}},
    Row{DType::kF8E5M2, "f8e5m2", 1, Class::kFloat, {8, 5, 15}},
};

constexpr const Row& row(DType t) { return kRows[static_cast<std::size_t>(t)]; }

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

static_assert(kRows.size() == kDTypes);

const FloatFormat& float_format(DType t) { return row(t).format; }

DType compute_type(DType t) { return is_float(t) && size_bytes(t) < 4 ? DType::kF32 : t; }

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
  if (t == DType::kF64) return v;
  const auto rounded = static_cast<float>(v);
  if (t == DType::kF32) return rounded;
  const FloatFormat& format = float_format(t);
  return decode(format, encode(format, rounded));
}

float f16_to_f32(std::uint16_t bits) { return decode(row(DType::kF16).format, bits); }
std::uint16_t f32_to_f16(float v) {
  return static_cast<std::uint16_t>(encode(row(DType::kF16).format, v));
}
float bf16_to_f32(std::uint16_t bits) { return decode(row(DType::kBF16).format, bits); }
std::uint16_t f32_to_bf16(float v) {
  return static_cast<std::uint16_t>(encode(row(DType::kBF16).format, v));
}

}  // namespace tessera
