#include "tessera/lang/te/ops/element_types.h"

namespace tessera::te {

Result<ElementTypes> float_types(const OpSpec& spec) {
  if (is_float(spec.dtype)) return ElementTypes{spec.dtype, compute_type(spec.dtype), spec.dtype};
  return make_error(ErrorCode::kInvalidArgument,
                    "{}: dtype={} is not supported; use f16, bf16, f32 or f64", spec.op,
                    to_text(spec.dtype));
}

Result<ElementTypes> mac_types(const OpSpec& spec) {
  const bool bytes = spec.dtype == DType::kI8 || spec.dtype == DType::kU8;
  if (bytes || is_float(spec.dtype)) return product_types(spec.dtype, spec.dtype);
  return make_error(ErrorCode::kInvalidArgument,
                    "{}: dtype={} is not supported; use f16, bf16, f32, f64, i8 or u8", spec.op,
                    to_text(spec.dtype));
}

Result<ElementTypes> product_types(DType a, DType b) {
  const auto is_byte = [](DType t) { return t == DType::kI8 || t == DType::kU8; };
  const auto is_short = [](DType t) { return is_float(t) && size_bytes(t) == 1; };
  if (is_byte(a) && is_byte(b)) return ElementTypes{a, DType::kI32, DType::kI32};
  if (is_short(a) && is_short(b)) return ElementTypes{a, DType::kF32, DType::kF32};
  if (a == b && (is_float(a) || is_int(a))) return ElementTypes{a, compute_type(a), a};
  return make_error(ErrorCode::kInvalidArgument, "no product of {} and {}", to_text(a), to_text(b));
}

ir::Expr to_type(DType t, const ir::Expr& v) { return v.dtype() == t ? v : ir::cast(t, v); }

ir::Buffer cast_output(DagBuilder& b, const ir::Buffer& acc, DType out, const NamedAxes& axes,
                       const std::string& name) {
  if (acc->dtype == out) return acc;
  return b.compute(name, axes, [&](const Indices& i) { return ir::cast(out, at(acc, i)); });
}

}  // namespace tessera::te
