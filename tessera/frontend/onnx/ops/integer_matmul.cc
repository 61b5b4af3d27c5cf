// MatMulInteger and QLinearMatMul. The product of the raw bytes is corrected for the zero points:
// (A - a)(B - b) = AB - a colsum(B) - b rowsum(A) + K a b.
#include "tessera/frontend/onnx/ops/contract.h"
#include "tessera/frontend/onnx/ops/integers.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

// A per-row parameter [M] as a column; scalars and full ranks stay.
Term as_column(Formula& f, Term x) {
  const Shape shape = f.shape(x);
  return shape.size() == 1 ? f.reshape(x, {shape[0], 1}) : x;
}

// The product of operands that are at least matrices.
Term multiply(Formula& f, Context& c, IntegerOperands x) {
  const auto byte = [](DType t) { return t == DType::kI8 || t == DType::kU8; };
  if (!byte(f.dtype(x.a)) || !byte(f.dtype(x.b))) {
    f.fail(make_error(ErrorCode::kUnsupported, "operands of {} and {}", to_text(f.dtype(x.a)),
                      to_text(f.dtype(x.b))));
  }
  if (f.failed()) return f.value(kNoValue);
  if (!is_zero(c.b, x.b_zero) && c.b.constant_of(x.b.id) && c.b.constant_of(x.b_zero)) {
    const Term shifted = without_zero_point(f, c, x.b, f.value(x.b_zero));
    if (size_bytes(f.dtype(shifted)) == 1) {
      x.b = shifted;
      x.b_zero = kNoValue;
    }
  }
  if (f.failed()) return f.value(kNoValue);
  const auto depth = static_cast<double>(f.shape(x.a).back());
  const auto product = matmul(c.b, x.a.id, x.b.id);
  if (!product) {
    f.fail(product.error());
    return f.value(kNoValue);
  }
  Term y = f.value(*product);
  const std::int64_t a_rank = static_cast<std::int64_t>(f.shape(x.a).size());
  const std::int64_t b_rank = static_cast<std::int64_t>(f.shape(x.b).size());
  const bool a_shift = !is_zero(c.b, x.a_zero), b_shift = !is_zero(c.b, x.b_zero);
  Term a_zero, b_zero;
  if (a_shift) {
    a_zero = as_column(f, f.cast(f.value(x.a_zero), DType::kI32));
    y = y - a_zero * f.reduce("sum", f.cast(x.b, DType::kI32), {b_rank - 2});
  }
  if (b_shift) {
    b_zero = f.cast(f.value(x.b_zero), DType::kI32);
    y = y - b_zero * f.reduce("sum", f.cast(x.a, DType::kI32), {a_rank - 1});
  }
  if (a_shift && b_shift) {
    y = y + a_zero * b_zero * depth;
  }
  return y;
}

// Makes matrices of vectors; the shape that the product then has to take.
Result<Shape> as_matrices(Formula& f, Term* a, Term* b) {
  const Shape as = f.shape(*a), bs = f.shape(*b);
  if (as.empty() || bs.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no matrix product of a scalar");
  }
  if (as.size() == 1) *a = f.reshape(*a, {1, as[0]});
  if (bs.size() == 1) *b = f.reshape(*b, {bs[0], 1});
  return Shape{as.size() == 1 ? 0 : 1, bs.size() == 1 ? 0 : 1};
}

// Removes the axes that as_matrices added.
Term drop_added(Formula& f, Term y, const Shape& kept) {
  Shape shape = f.shape(y);
  if (f.failed()) return y;
  if (kept[1] == 0) shape.pop_back();
  if (kept[0] == 0) shape.erase(shape.end() - 1 - kept[1]);
  return f.reshape(y, shape);
}

Result<Values> import_matmul_integer(Context& c) {
  Formula f(c);
  TESSERA_TRY(const Term y,
              integer_matmul(f, c, {f.in(0), f.in(1), optional_input(c, 2), optional_input(c, 3)}));
  return f.result({y});
}

Result<Values> import_qlinear_matmul(Context& c) {
  Formula f(c);
  IntegerOperands x{f.in(0), f.in(3), c.in(2), c.in(5)};
  TESSERA_TRY(const Shape kept, as_matrices(f, &x.a, &x.b));
  const Term acc = multiply(f, c, x);
  const auto scale = [&](std::size_t i) { return f.cast(f.in(i), DType::kF32); };
  const Term factor = as_column(f, scale(1)) * scale(4) / as_column(f, scale(6));
  const Term zero = as_column(f, f.in(7));
  const Term y = requantize(f, acc, factor, zero.id, c.dtype(7));
  return f.result({drop_added(f, y, kept)});
}

}  // namespace

Result<Term> integer_matmul(Formula& f, Context& c, IntegerOperands x) {
  TESSERA_TRY(const Shape kept, as_matrices(f, &x.a, &x.b));
  return drop_added(f, multiply(f, c, x), kept);
}

std::vector<OnnxOp> integer_matmul_rows() {
  return {
      {"MatMulInteger", 10, 2, 4, import_matmul_integer},
      {"QLinearMatMul", 10, 8, 8, import_qlinear_matmul},
  };
}

}  // namespace tessera::onnx
