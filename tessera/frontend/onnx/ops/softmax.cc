#include "tessera/frontend/onnx/ops/softmax.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

using Along = Term (*)(Formula& f, Term x, std::int64_t axis);

Term softmax(Formula& f, Term x, std::int64_t axis) {
  return f.op("softmax", {x}, {{"axis", axis}});
}

// One where the first largest element is, zero elsewhere.
Term hardmax(Formula& f, Term x, std::int64_t axis) {
  const Shape shape = f.shape(x);
  if (f.failed() || elements(shape) == 0) return x;
  const std::int64_t size = shape[static_cast<std::size_t>(axis)];
  HostTensor numbers(DType::kI64, {size});
  for (std::int64_t i = 0; i < size; ++i) numbers.set_int(i, i);
  const Term best =
      f.op("arg_reduce", {x}, {{"kind", std::string("max")}, {"axis", axis}, {"keepdims", 1}});
  const Term position =
      f.along(f.constant(std::move(numbers)), axis, static_cast<std::int64_t>(shape.size()));
  return f.cast(call("eq", best, position), f.dtype(x));
}

Along function_of(const std::string& op_type) {
  if (op_type == "Softmax") return softmax;
  return op_type == "LogSoftmax" ? log_softmax : hardmax;
}

// From opset 13 on: along one axis.
Result<Values> import_along_axis(Context& c) {
  TESSERA_TRY(const std::int64_t given, c.integer("axis", -1));
  TESSERA_TRY(const std::int64_t axis, c.axis(given, c.rank(0)));
  Formula f(c);
  return f.result({function_of(c.node.op_type)(f, f.in(0), axis)});
}

// Before opset 13: over all axes from `axis` to the last, as one.
Result<Values> import_flattened(Context& c) {
  TESSERA_TRY(const std::int64_t given, c.integer("axis", 1));
  TESSERA_TRY(const std::int64_t axis, c.axis(given, c.rank(0)));
  const Shape shape = c.shape(0);
  Formula f(c);
  const Along function = function_of(c.node.op_type);
  if (axis == c.rank(0) - 1) return f.result({function(f, f.in(0), axis)});
  const auto cut = shape.begin() + axis;
  const Shape matrix = {elements(Shape(shape.begin(), cut)), elements(Shape(cut, shape.end()))};
  return f.result({f.reshape(function(f, f.reshape(f.in(0), matrix), 1), shape)});
}

}  // namespace

Term log_softmax(Formula& f, Term x, std::int64_t axis) {
  const Term wide = f.widen(x);
  const Term shifted = wide - f.reduce("max", wide, {axis});
  const Term sum = f.reduce("sum", call("exp", shifted), {axis});
  return f.cast(shifted - call("log", sum), f.dtype(x));
}

std::vector<OnnxOp> softmax_rows() {
  std::vector<OnnxOp> rows;
  for (const char* name : {"Hardmax", "LogSoftmax", "Softmax"}) {
    rows.push_back({name, 1, 1, 1, import_flattened});
    rows.push_back({name, 13, 1, 1, import_along_axis});
  }
  return rows;
}

}  // namespace tessera::onnx
