#include "tessera/frontend/onnx/ops/integers.h"

#include <algorithm>

namespace tessera::onnx {

bool is_zero(const graph::GraphBuilder& b, ValueId zero_point) {
  if (zero_point == kNoValue) return true;
  const HostTensor* t = b.constant_of(zero_point);
  if (!t || !is_int(t->dtype())) return false;
  for (std::int64_t i = 0; i < t->size(); ++i) {
    if (t->get_int(i) != 0) return false;
  }
  return true;
}

ValueId optional_input(const Context& c, std::size_t i) { return c.has(i) ? c.in(i) : kNoValue; }

Term without_zero_point(Formula& f, Context& c, Term w, Term zero_point) {
  const Term wide = f.cast(w, DType::kI32) - f.cast(zero_point, DType::kI32);
  if (f.failed()) return wide;
  const HostTensor* values = c.b.constant_of(wide.id);
  if (!values) return wide;
  std::int64_t low = 0, high = 0;
  for (std::int64_t i = 0; i < values->size(); ++i) {
    low = std::min(low, values->get_int(i));
    high = std::max(high, values->get_int(i));
  }
  if (low >= -128 && high <= 127) return f.cast(wide, DType::kI8);
  if (low >= 0 && high <= 255) return f.cast(wide, DType::kU8);
  return wide;
}

Term requantize(Formula& f, Term acc, Term scale, ValueId zero_point, DType absent) {
  const Term rounded = call("round", f.cast(acc, DType::kF32) * scale);
  if (zero_point == kNoValue) return f.cast(rounded, absent);
  const Term zero = f.value(zero_point);
  return f.cast(rounded + f.cast(zero, DType::kF32), f.dtype(zero));
}

}  // namespace tessera::onnx
