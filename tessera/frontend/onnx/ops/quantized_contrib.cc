// Operators of domain com.microsoft on quantized data: computed on the numbers that the integers
// stand for, and quantized again.
#include "tessera/frontend/onnx/ops/contract.h"
#include "tessera/frontend/onnx/ops/contrib.h"
#include "tessera/frontend/onnx/ops/integers.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/frontend/onnx/ops/windows.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

Result<void> check_byte(const Context& c, std::size_t i) {
  if (c.dtype(i) == DType::kI8 || c.dtype(i) == DType::kU8) return {};
  return invalid("input {} is {} instead of i8 or u8", i, to_text(c.dtype(i)));
}

// Zero points may be omitted before inputs that must be there.
Result<void> check_given(const Context& c, std::initializer_list<std::size_t> inputs) {
  for (const std::size_t i : inputs) {
    if (!c.has(i)) return invalid("input {} is missing", i);
  }
  return {};
}

// The scalar of input `i` as f32; 0 when it is omitted.
Term parameter(Formula& f, const Context& c, std::size_t i) {
  if (!c.has(i)) return f.number(DType::kF32, 0);
  if (elements(c.shape(i)) != 1) {
    f.fail(make_error(ErrorCode::kUnsupported, "input {} has {} elements instead of one", i,
                      elements(c.shape(i))));
  }
  return f.cast(f.reshape(f.in(i), {}), DType::kF32);
}

// (x - zero point) * scale with data, scale and zero point at `first` and after.
Term dequantized(Formula& f, const Context& c, std::size_t first) {
  const Term x = f.cast(f.in(first), DType::kF32);
  const Term shifted =
      is_zero(c.b, optional_input(c, first + 2)) ? x : x - parameter(f, c, first + 2);
  return shifted * parameter(f, c, first + 1);
}

// round(x / scale) + zero point, saturated to `to`; scale and zero point are at `first`.
Term quantized(Formula& f, const Context& c, Term x, std::size_t first, DType to) {
  const Term rounded = call("round", x / parameter(f, c, first));
  return f.cast(rounded + parameter(f, c, first + 1), to);
}

// A, its scale and zero point, the same of B and of the result.
Result<Values> binary(Context& c, const char* op) {
  TESSERA_DO(check_given(c, {3, 4, 6}));
  TESSERA_DO(check_byte(c, 0));
  TESSERA_DO(check_byte(c, 3));
  Formula f(c);
  const Term y = call(op, dequantized(f, c, 0), dequantized(f, c, 3));
  return f.result({quantized(f, c, y, 6, c.dtype(0))});
}

Result<Values> import_add(Context& c) { return binary(c, "add"); }
Result<Values> import_mul(Context& c) { return binary(c, "mul"); }

Result<Values> import_sigmoid(Context& c) {
  TESSERA_DO(check_given(c, {3}));
  TESSERA_DO(check_byte(c, 0));
  Formula f(c);
  return f.result({quantized(f, c, call("sigmoid", dequantized(f, c, 0)), 3, c.dtype(0))});
}

Result<Values> import_leaky_relu(Context& c) {
  TESSERA_DO(check_given(c, {3}));
  TESSERA_DO(check_byte(c, 0));
  TESSERA_TRY(const double alpha, c.number("alpha", 0.01));
  Formula f(c);
  const Term x = dequantized(f, c, 0);
  const Term y = where(call("lt", x, 0), x * alpha, x);
  return f.result({quantized(f, c, y, 3, c.dtype(0))});
}

Result<Values> import_global_average_pool(Context& c) {
  TESSERA_DO(check_given(c, {3}));
  TESSERA_DO(check_byte(c, 0));
  TESSERA_TRY(const std::int64_t channels_last, c.integer("channels_last", 0));
  const std::int64_t rank = c.rank(0), first = channels_last != 0 ? 1 : 2;
  if (rank < 3) return invalid("an image is needed, not {}", to_text(c.shape(0)));
  std::vector<std::int64_t> axes;
  for (std::int64_t d = first; d < rank - 2 + first; ++d) axes.push_back(d);
  Formula f(c);
  const Term y = f.reduce("mean", dequantized(f, c, 0), axes);
  return f.result({quantized(f, c, y, 3, c.dtype(0))});
}

// Scale and zero point of the result, then data, scale and zero point of each part.
Result<Values> import_concat(Context& c) {
  TESSERA_TRY(const std::int64_t given, c.integer("axis"));
  if (c.inputs.size() % 3 != 2) return invalid("{} inputs", c.inputs.size());
  Formula f(c);
  std::vector<Term> parts;
  for (std::size_t i = 2; i < c.inputs.size(); i += 3) {
    TESSERA_DO(check_given(c, {i, i + 1, i + 2}));
    TESSERA_DO(check_byte(c, i));
    const Term x = dequantized(f, c, i);
    parts.push_back(quantized(f, c, x, 0, c.dtype(1)));
  }
  TESSERA_TRY(const std::int64_t axis, c.axis(given, c.rank(2)));
  return f.result({concat(f, parts, static_cast<std::size_t>(axis))});
}

// Attributes as those of AveragePool.
Result<Values> import_average_pool(Context& c) {
  TESSERA_DO(check_given(c, {3}));
  TESSERA_DO(check_byte(c, 0));
  TESSERA_TRY(const std::int64_t channels_last, c.integer("channels_last", 0));
  if (channels_last != 0) return make_error(ErrorCode::kUnsupported, "channels_last");
  TESSERA_TRY(graph::Attrs attrs, average_pool_attrs(c));
  Formula f(c);
  const Term y = f.op("pool", {dequantized(f, c, 0)}, std::move(attrs));
  return f.result({quantized(f, c, y, 3, c.dtype(0))});
}

// Attribute opset says which Softmax is meant: along one axis, or over all from it on.
Result<Values> import_softmax(Context& c) {
  TESSERA_DO(check_given(c, {3}));
  TESSERA_DO(check_byte(c, 0));
  TESSERA_TRY(const std::int64_t opset, c.integer("opset"));
  TESSERA_TRY(const std::int64_t given, c.integer("axis", opset < 13 ? 1 : -1));
  TESSERA_TRY(const std::int64_t axis, c.axis(given, c.rank(0)));
  Formula f(c);
  Term x = dequantized(f, c, 0);
  Shape rows = {1, 1};
  for (std::int64_t d = 0; d < c.rank(0); ++d)
    rows[d < axis ? 0 : 1] *= c.shape(0)[static_cast<std::size_t>(d)];
  if (opset < 13) x = f.reshape(x, rows);
  const Term y = f.op("softmax", {x}, {{"axis", opset < 13 ? 1 : axis}});
  return f.result({quantized(f, c, f.reshape(y, c.shape(0)), 3, c.dtype(0))});
}

// Product of the integers of A and B in f32, times both scales, plus bias. Scale and zero point of
// B may be given per column.
Result<Term> scaled_product(Formula& f, Context& c, const IntegerOperands& x, Term scale,
                            std::size_t bias) {
  TESSERA_TRY(const Term product, integer_matmul(f, c, x));
  const Term y = f.cast(product, DType::kF32) * scale;
  return c.has(bias) ? y + f.cast(f.in(bias), DType::kF32) : y;
}

// A, B, scale of A, scale of B, zero point of A, zero point of B, bias.
Result<Values> import_matmul_to_float(Context& c) {
  Formula f(c);
  const IntegerOperands x{f.in(0), f.in(1), optional_input(c, 4), optional_input(c, 5)};
  const Term scale = parameter(f, c, 2) * f.cast(f.in(3), DType::kF32);
  TESSERA_TRY(const Term y, scaled_product(f, c, x, scale, 6));
  return f.result(y, c.dtype(2));
}

// A, B, scale of B, zero point of B, bias: A is quantized on the way.
Result<Values> import_dynamic_matmul(Context& c) {
  if (c.dtype(0) != DType::kF32) return invalid("cannot quantize {}", to_text(c.dtype(0)));
  Formula f(c);
  const Quantized a = dynamic_quantize(f, f.in(0));
  const IntegerOperands x{a.data, f.in(1), a.zero_point.id, optional_input(c, 3)};
  TESSERA_TRY(const Term y, scaled_product(f, c, x, a.scale * f.cast(f.in(2), DType::kF32), 4));
  return f.result({y});
}

// A with scale and zero point, the same of B, a bias in i32, scale and zero point of the result,
// which is f32 without them.
Result<Values> import_gemm(Context& c) {
  TESSERA_DO(check_given(c, {0, 1, 3, 4}));
  TESSERA_TRY(const double alpha, c.number("alpha", 1.0));
  TESSERA_TRY(const std::int64_t turn_a, c.integer("transA", 0));
  TESSERA_TRY(const std::int64_t turn_b, c.integer("transB", 0));
  if (c.rank(0) != 2 || c.rank(3) != 2) return invalid("matrices are needed");
  Formula f(c);
  const auto matrix = [&](std::size_t i, std::int64_t turn) {
    return turn != 0 ? transpose(f, f.in(i), {1, 0}) : f.in(i);
  };
  const IntegerOperands x{matrix(0, turn_a), matrix(3, turn_b), optional_input(c, 2),
                          optional_input(c, 5)};
  TESSERA_TRY(Term sums, integer_matmul(f, c, x));
  if (c.has(6)) sums = sums + f.in(6);
  const Term scale = parameter(f, c, 1) * f.cast(f.in(4), DType::kF32) * alpha;
  if (!c.has(7)) return f.result({f.cast(sums, DType::kF32) * scale});
  return f.result(
      {requantize(f, sums, scale / parameter(f, c, 7), optional_input(c, 8), c.dtype(0))});
}

}  // namespace

std::vector<OnnxOp> quantized_contrib_rows() {
  return {
      {"DynamicQuantizeMatMul", 1, 3, 5, import_dynamic_matmul, kMicrosoft},
      {"MatMulIntegerToFloat", 1, 4, 7, import_matmul_to_float, kMicrosoft},
      {"QGemm", 1, 6, 9, import_gemm, kMicrosoft},
      {"QLinearAdd", 1, 2, 8, import_add, kMicrosoft},
      {"QLinearAveragePool", 1, 4, 5, import_average_pool, kMicrosoft},
      {"QLinearConcat", 1, 5, -1, import_concat, kMicrosoft},
      {"QLinearGlobalAveragePool", 1, 2, 5, import_global_average_pool, kMicrosoft},
      {"QLinearLeakyRelu", 1, 2, 5, import_leaky_relu, kMicrosoft},
      {"QLinearMul", 1, 2, 8, import_mul, kMicrosoft},
      {"QLinearSigmoid", 1, 2, 5, import_sigmoid, kMicrosoft},
      {"QLinearSoftmax", 1, 4, 5, import_softmax, kMicrosoft},
  };
}

}  // namespace tessera::onnx
