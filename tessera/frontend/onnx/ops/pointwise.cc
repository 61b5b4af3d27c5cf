// Operators on single elements that are one node of the graph, or nearly.
#include <array>

#include "tessera/frontend/onnx/ops/element_type.h"
#include "tessera/frontend/onnx/ops/formula.h"
#include "tessera/frontend/onnx/ops/ops.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

struct Direct {
  const char* onnx;
  const char* graph;
  int since;
};

constexpr std::array kUnary = {
    Direct{"Abs", "abs", 1},          Direct{"Acos", "acos", 7},
    Direct{"Acosh", "acosh", 9},      Direct{"Asin", "asin", 7},
    Direct{"Asinh", "asinh", 9},      Direct{"Atan", "atan", 7},
    Direct{"Atanh", "atanh", 9},      Direct{"BitwiseNot", "not", 18},
    Direct{"Ceil", "ceil", 1},        Direct{"Cos", "cos", 7},
    Direct{"Cosh", "cosh", 9},        Direct{"Erf", "erf", 9},
    Direct{"Exp", "exp", 1},          Direct{"Floor", "floor", 1},
    Direct{"IsNaN", "is_nan", 9},     Direct{"Log", "log", 1},
    Direct{"Neg", "neg", 1},          Direct{"Not", "not", 1},
    Direct{"Reciprocal", "recip", 1}, Direct{"Round", "round", 11},
    Direct{"Sigmoid", "sigmoid", 1},  Direct{"Sign", "sign", 9},
    Direct{"Sin", "sin", 7},          Direct{"Sinh", "sinh", 9},
    Direct{"Sqrt", "sqrt", 1},        Direct{"Tan", "tan", 7},
    Direct{"Tanh", "tanh", 1},
};

constexpr std::array kBinary = {
    Direct{"Add", "add", 1},       Direct{"And", "and", 1},         Direct{"BitwiseAnd", "and", 18},
    Direct{"BitwiseOr", "or", 18}, Direct{"BitwiseXor", "xor", 18}, Direct{"Div", "div", 1},
    Direct{"Equal", "eq", 1},      Direct{"Less", "lt", 1},         Direct{"LessOrEqual", "le", 12},
    Direct{"Mul", "mul", 1},       Direct{"Or", "or", 1},           Direct{"Pow", "pow", 1},
    Direct{"Sub", "sub", 1},       Direct{"Xor", "xor", 1},
};

// With the operands exchanged.
constexpr std::array kMirrored = {
    Direct{"Greater", "lt", 1},
    Direct{"GreaterOrEqual", "le", 12},
};

constexpr std::array kVariadic = {
    Direct{"Max", "max", 1},
    Direct{"Min", "min", 1},
    Direct{"Sum", "add", 1},
};

template <std::size_t n>
const char* graph_name(const std::array<Direct, n>& table, const std::string& onnx) {
  for (const Direct& row : table) {
    if (row.onnx == onnx) return row.graph;
  }
  TESSERA_CHECK(false, "{} has no graph operator", onnx);
  return "";
}

Result<Values> import_unary(Context& c) {
  Formula f(c);
  return f.result({call(graph_name(kUnary, c.node.op_type), f.in(0))});
}

// Before opset 7 the second operand was aligned at attribute `axis` of the first.
Result<ValueId> second_operand(Context& c) {
  if (c.version >= 7) return c.in(1);
  TESSERA_TRY(const std::int64_t broadcast, c.integer("broadcast", 0));
  if (broadcast == 0 || !c.has_attribute("axis")) return c.in(1);
  TESSERA_TRY(std::int64_t axis, c.integer("axis"));
  TESSERA_TRY(axis, c.axis(axis, c.rank(0)));
  Shape shape = c.shape(1);
  const std::int64_t after = c.rank(0) - axis - c.rank(1);
  if (after > 0) shape.resize(shape.size() + static_cast<std::size_t>(after), 1);
  return c.b.reshape(c.in(1), shape);
}

Result<Values> import_binary(Context& c) {
  TESSERA_TRY(const ValueId b, second_operand(c));
  Formula f(c);
  return f.result({call(graph_name(kBinary, c.node.op_type), f.in(0), f.value(b))});
}

Result<Values> import_mirrored(Context& c) {
  TESSERA_TRY(const ValueId b, second_operand(c));
  Formula f(c);
  return f.result({call(graph_name(kMirrored, c.node.op_type), f.value(b), f.in(0))});
}

// Without a value: an input of a variadic operator that is omitted.
Result<void> check_all_given(const Context& c) {
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return make_error(ErrorCode::kInvalidArgument, "input {} is missing", i);
  }
  return {};
}

Result<Values> import_variadic(Context& c) {
  TESSERA_DO(check_all_given(c));
  Formula f(c);
  Term y = f.in(0);
  for (std::size_t i = 1; i < c.inputs.size(); ++i) {
    y = call(graph_name(kVariadic, c.node.op_type), y, f.in(i));
  }
  return f.result({y});
}

Result<Values> import_mean(Context& c) {
  TESSERA_DO(check_all_given(c));
  Formula f(c);
  const DType t = c.dtype(0);
  Term y = f.wide(0);
  for (std::size_t i = 1; i < c.inputs.size(); ++i) y = y + f.wide(i);
  return f.result(y / static_cast<double>(c.inputs.size()), t);
}

Result<Values> import_mod(Context& c) {
  TESSERA_TRY(const std::int64_t fmod, c.integer("fmod", 0));
  Formula f(c);
  return f.result({call(fmod != 0 ? "mod" : "floor_mod", f.in(0), f.in(1))});
}

Result<Values> import_bit_shift(Context& c) {
  TESSERA_TRY(const std::string direction, c.word("direction"));
  if (direction != "LEFT" && direction != "RIGHT") {
    return make_error(ErrorCode::kInvalidArgument, "direction {} is not LEFT or RIGHT", direction);
  }
  Formula f(c);
  return f.result({call(direction == "LEFT" ? "shl" : "shr", f.in(0), f.in(1))});
}

Result<Values> import_where(Context& c) {
  Formula f(c);
  return f.result({where(f.in(0), f.in(1), f.in(2))});
}

Result<Values> import_is_inf(Context& c) {
  TESSERA_TRY(const std::int64_t negative, c.integer("detect_negative", 1));
  TESSERA_TRY(const std::int64_t positive, c.integer("detect_positive", 1));
  Formula f(c);
  const Term x = f.in(0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (negative != 0 && positive != 0) return f.result({call("is_inf", x)});
  if (negative != 0) return f.result({call("eq", x, -kInfinity)});
  if (positive != 0) return f.result({call("eq", x, kInfinity)});
  return f.result({call("lt", x, x)});
}

Result<Values> import_cast_by_word(Context& c) {
  TESSERA_TRY(const std::string word, c.word("to"));
  TESSERA_TRY(const DType to, dtype_of_word(word));
  Formula f(c);
  return f.result(f.in(0), to);
}

Result<Values> import_cast(Context& c) {
  TESSERA_TRY(const std::int64_t number, c.integer("to"));
  TESSERA_TRY(const DType to, dtype_of_number(number));
  TESSERA_TRY(const std::int64_t saturate, c.integer("saturate", 1));
  Formula f(c);
  return f.result(saturate != 0 ? saturated(f, f.in(0), to) : f.in(0), to);
}

// A bool is a byte of 0 or 1.
Result<Values> import_bit_cast(Context& c) {
  TESSERA_TRY(const std::int64_t number, c.integer("to"));
  TESSERA_TRY(const DType to, dtype_of_number(number));
  Formula f(c);
  const bool from_bool = c.dtype(0) == DType::kBool, to_bool = to == DType::kBool;
  const Term bytes = from_bool ? f.cast(f.in(0), DType::kU8) : f.in(0);
  const DType between = to_bool ? DType::kU8 : to;
  const Term bits = f.op("bitcast", {bytes}, {{"to", std::string(to_text(between))}});
  return f.result(bits, to);
}

Result<Values> import_cast_like(Context& c) {
  TESSERA_TRY(const std::int64_t saturate, c.integer("saturate", 1));
  Formula f(c);
  return f.result(saturate != 0 ? saturated(f, f.in(0), c.dtype(1)) : f.in(0), c.dtype(1));
}

Result<Values> import_clip_attributes(Context& c) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  TESSERA_TRY(const double low, c.number("min", -kLargest));
  TESSERA_TRY(const double high, c.number("max", kLargest));
  Formula f(c);
  Term y = f.in(0);
  if (low > -kLargest) y = call("max", y, low);
  if (high < kLargest) y = call("min", y, high);
  return f.result({y});
}

// A lower bound above the upper one gives the upper one.
Result<Values> import_clip(Context& c) {
  Formula f(c);
  Term y = f.in(0);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    if (!c.has(i)) continue;
    if (elements(c.shape(i)) != 1) {
      return make_error(ErrorCode::kInvalidArgument, "a bound has the shape {}",
                        to_text(c.shape(i)));
    }
    y = call(i == 1 ? "max" : "min", y, f.reshape(f.in(i), {}));
  }
  return f.result({y});
}

template <std::size_t n>
void add_rows(std::vector<OnnxOp>& rows, const std::array<Direct, n>& table, int min_inputs,
              int max_inputs, Result<Values> (*import)(Context&)) {
  for (const Direct& row : table) {
    rows.push_back({row.onnx, row.since, min_inputs, max_inputs, import});
  }
}

}  // namespace

std::vector<OnnxOp> pointwise_rows() {
  std::vector<OnnxOp> rows = {
      {"BitCast", 26, 1, 1, import_bit_cast},
      {"BitShift", 11, 2, 2, import_bit_shift},
      {"Cast", 1, 1, 1, import_cast_by_word},
      {"Cast", 6, 1, 1, import_cast, "", false, Widened::kNumbers},
      {"CastLike", 15, 2, 2, import_cast_like},
      {"Clip", 1, 1, 1, import_clip_attributes},
      {"Clip", 11, 1, 3, import_clip},
      {"IsInf", 10, 1, 1, import_is_inf},
      {"Mean", 1, 1, -1, import_mean},
      {"Mod", 10, 2, 2, import_mod},
      {"Where", 9, 3, 3, import_where},
  };
  add_rows(rows, kUnary, 1, 1, import_unary);
  add_rows(rows, kBinary, 2, 2, import_binary);
  add_rows(rows, kMirrored, 2, 2, import_mirrored);
  add_rows(rows, kVariadic, 1, -1, import_variadic);
  return rows;
}

}  // namespace tessera::onnx
