// Functions of single elements: one row per function, and pow, where, cast and bitcast, whose
// operands differ in type. f16 and bf16 are computed in f32 and rounded once.
#include <array>
#include <cstring>
#include <utility>

#include "tessera/frontend/graph/ops/broadcast.h"
#include "tessera/frontend/graph/ops/ops.h"
#include "tessera/frontend/graph/ops/power.h"
#include "tessera/lang/te/ops/element_types.h"

namespace tessera::graph {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::Intrinsic;

enum class Operands : std::uint8_t {
  kFloats,
  kNumbers,  // anything but bool
  kBits,     // integers and bool
  kIntegers,
  kAny,
};

enum class Output : std::uint8_t {
  kRounded,  // of the operands' type
  kExact,    // of the operands' type, one of its values without rounding
  kBool,
};

struct Row {
  const char* name;
  int arity;
  Operands operands;
  Output output;
  Expr (*apply)(const Expr& a, const Expr& b);  // b is null for functions of one operand
};

Expr one(const Expr& like) { return ir::int_like(like.type(), 1); }
Expr zero(const Expr& like) { return ir::zero(like.type()); }

template <Intrinsic fn>
Expr call(const Expr& a, const Expr&) {
  return ir::call(fn, {a});
}

template <BinaryOp op>
Expr binary(const Expr& a, const Expr& b) {
  return Expr(ir::Binary::make(op, a, b));
}

// Subtracting from -0 keeps the sign of zeros.
Expr negate(const Expr& a, const Expr&) {
  return (is_float(a.dtype()) ? ir::imm(a.dtype(), -0.0) : zero(a)) - a;
}

// What choose_integers leaves open.
Expr first(const Expr& a, const Expr&) { return a; }

Expr reciprocal(const Expr& a, const Expr&) { return ir::div(one(a), a); }

// The exponential may overflow to infinity, whose reciprocal is the right result.
Expr sigmoid(const Expr& a, const Expr&) {
  return ir::div(one(a), one(a) + ir::call(Intrinsic::kExp, {zero(a) - a}));
}

// NaN and zeros are their own sign.
Expr sign(const Expr& a, const Expr&) {
  const Expr below = is_unsigned_int(a.dtype())
                         ? a
                         : ir::select(ir::lt(a, zero(a)), ir::int_like(a.type(), -1), a);
  return ir::select(ir::gt(a, zero(a)), one(a), below);
}

// Of floats as of integers: the sign of the divisor, that of zeros too.
Expr floor_mod(const Expr& a, const Expr& b) {
  if (!is_float(a.dtype())) return ir::floor_mod(a, b);
  const Expr r = ir::mod(a, b);
  const Expr other_side = ir::ne(ir::lt(r, zero(r)), ir::lt(b, zero(b)));
  const Expr nothing = ir::select(ir::lt(b, zero(b)), ir::imm(r.dtype(), -0.0), zero(r));
  return ir::select(ir::eq(r, zero(r)), nothing, ir::select(other_side, r + b, r));
}

// Shifting out every bit leaves 0, or what a shift to the right copies: the sign.
template <BinaryOp op>
Expr shift(const Expr& a, const Expr& b) {
  const Expr width = ir::int_like(b.type(), 8 * size_bytes(b.dtype()));
  Expr inside = ir::lt(b, width);
  if (is_signed_int(b.dtype())) inside = ir::logical_and(inside, ir::ge(b, zero(b)));
  Expr rest = zero(a);
  if (op == BinaryOp::kShr && is_signed_int(a.dtype())) {
    rest = ir::select(ir::lt(a, zero(a)), ir::int_like(a.type(), -1), rest);
  }
  return ir::select(inside, binary<op>(a, b), rest);
}

constexpr std::array kRows = {
    Row{"abs", 1, Operands::kNumbers, Output::kExact, call<Intrinsic::kAbs>},
    Row{"acos", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kAcos>},
    Row{"acosh", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kAcosh>},
    Row{"add", 2, Operands::kNumbers, Output::kRounded, binary<BinaryOp::kAdd>},
    Row{"and", 2, Operands::kBits, Output::kExact, binary<BinaryOp::kAnd>},
    Row{"asin", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kAsin>},
    Row{"asinh", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kAsinh>},
    Row{"atan", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kAtan>},
    Row{"atanh", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kAtanh>},
    Row{"ceil", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kCeil>},
    Row{"cos", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kCos>},
    Row{"cosh", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kCosh>},
    Row{"div", 2, Operands::kNumbers, Output::kRounded, binary<BinaryOp::kDiv>},
    Row{"either", 2, Operands::kAny, Output::kExact, first},
    Row{"eq", 2, Operands::kAny, Output::kBool, binary<BinaryOp::kEq>},
    Row{"erf", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kErf>},
    Row{"exp", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kExp>},
    Row{"floor", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kFloor>},
    Row{"floor_mod", 2, Operands::kNumbers, Output::kRounded, floor_mod},
    Row{"is_inf", 1, Operands::kFloats, Output::kBool, call<Intrinsic::kIsInf>},
    Row{"is_nan", 1, Operands::kFloats, Output::kBool, call<Intrinsic::kIsNan>},
    Row{"le", 2, Operands::kAny, Output::kBool, binary<BinaryOp::kLe>},
    Row{"log", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kLog>},
    Row{"lt", 2, Operands::kAny, Output::kBool, binary<BinaryOp::kLt>},
    Row{"max", 2, Operands::kAny, Output::kExact, binary<BinaryOp::kMax>},
    Row{"min", 2, Operands::kAny, Output::kExact, binary<BinaryOp::kMin>},
    Row{"mod", 2, Operands::kNumbers, Output::kRounded, binary<BinaryOp::kMod>},
    Row{"mul", 2, Operands::kNumbers, Output::kRounded, binary<BinaryOp::kMul>},
    Row{"ne", 2, Operands::kAny, Output::kBool, binary<BinaryOp::kNe>},
    Row{"neg", 1, Operands::kNumbers, Output::kExact, negate},
    Row{"not", 1, Operands::kBits, Output::kExact, call<Intrinsic::kNot>},
    Row{"or", 2, Operands::kBits, Output::kExact, binary<BinaryOp::kOr>},
    Row{"recip", 1, Operands::kFloats, Output::kRounded, reciprocal},
    Row{"round", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kRound>},
    Row{"shl", 2, Operands::kIntegers, Output::kExact, shift<BinaryOp::kShl>},
    Row{"shr", 2, Operands::kIntegers, Output::kExact, shift<BinaryOp::kShr>},
    Row{"sigmoid", 1, Operands::kFloats, Output::kRounded, sigmoid},
    Row{"sign", 1, Operands::kNumbers, Output::kExact, sign},
    Row{"sin", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kSin>},
    Row{"sinh", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kSinh>},
    Row{"sqrt", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kSqrt>},
    Row{"sub", 2, Operands::kNumbers, Output::kRounded, binary<BinaryOp::kSub>},
    Row{"tan", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kTan>},
    Row{"tanh", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kTanh>},
    Row{"trunc", 1, Operands::kFloats, Output::kRounded, call<Intrinsic::kTrunc>},
    Row{"xor", 2, Operands::kBits, Output::kExact, binary<BinaryOp::kXor>},
};

using Types = std::vector<TensorType>;
using Buffers = std::vector<ir::Buffer>;

bool accepts(Operands operands, DType t) {
  switch (operands) {
    case Operands::kFloats:
      return is_float(t);
    case Operands::kNumbers:
      return t != DType::kBool;
    case Operands::kBits:
      return !is_float(t);
    case Operands::kIntegers:
      return is_int(t);
    case Operands::kAny:
      return true;
  }
  return false;
}

Result<void> check_operands(const NodeView& node, std::size_t count) {
  if (node.size() != count) {
    return make_error(ErrorCode::kInvalidArgument, "{} operands given, {} needed", node.size(),
                      count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!node.has(i)) return make_error(ErrorCode::kInvalidArgument, "operand {} is missing", i);
  }
  return {};
}

// One output of type `t` with the shape that all operands broadcast to.
Result<Types> broadcast_output(const NodeView& node, DType t) {
  std::vector<const Shape*> shapes;
  for (const TensorType* type : node.types) shapes.push_back(&type->shape);
  TESSERA_TRY(Shape shape, broadcast_shapes(shapes));
  if (const auto total = checked_elements(shape, t); !total.ok()) return total.error();
  return Types{{t, std::move(shape)}};
}

Error differ(DType a, DType b) {
  return make_error(ErrorCode::kInvalidArgument, "operands differ in type: {} and {}", to_text(a),
                    to_text(b));
}

// Operand `i` at a point of the output: an immediate where it is one known number.
Expr operand(const NodeView& node, const Buffers& inputs, std::size_t i, const te::Indices& at) {
  const Expr known = immediate(node.constants[i]);
  return known ? known : te::at_broadcast(inputs[i], at);
}

Shape output_shape(const NodeView& node) { return broadcast_output(node, DType::kU8)->at(0).shape; }

Buffers compute(te::DagBuilder& b, const std::string& name, const NodeView& node,
                const Buffers& inputs, const std::function<Expr(const std::vector<Expr>&)>& value) {
  return {b.compute(name, axes_over(output_shape(node)), [&](const te::Indices& at) {
    std::vector<Expr> operands;
    for (std::size_t i = 0; i < node.size(); ++i) {
      operands.push_back(operand(node, inputs, i, at));
    }
    return value(operands);
  })};
}

template <std::size_t row>
Result<Types> infer_row(const NodeView& node) {
  constexpr const Row& kRow = kRows[row];
  TESSERA_DO(check_operands(node, kRow.arity));
  const DType t = node.dtype(0);
  if (!accepts(kRow.operands, t)) {
    return make_error(ErrorCode::kInvalidArgument, "not defined for {}", to_text(t));
  }
  if (kRow.arity == 2 && node.dtype(1) != t) return differ(t, node.dtype(1));
  return broadcast_output(node, kRow.output == Output::kBool ? DType::kBool : t);
}

template <std::size_t row>
Result<Buffers> define_row(te::DagBuilder& b, const std::string& name, const NodeView& node,
                           const Buffers& inputs) {
  constexpr const Row& kRow = kRows[row];
  const DType t = node.dtype(0);
  const DType in = kRow.output == Output::kRounded ? compute_type(t) : t;
  return compute(b, name, node, inputs, [&](const std::vector<Expr>& x) {
    const Expr y = kRow.apply(te::to_type(in, x[0]), x.size() > 1 ? te::to_type(in, x[1]) : Expr());
    return kRow.output == Output::kBool ? y : te::to_type(t, y);
  });
}

Result<Types> infer_pow(const NodeView& node) {
  TESSERA_DO(check_operands(node, 2));
  for (const TensorType* type : node.types) {
    if (type->dtype == DType::kBool) {
      return make_error(ErrorCode::kInvalidArgument, "not defined for bool");
    }
  }
  return broadcast_output(node, node.dtype(0));
}

// Integer bases go through f64, which is exact up to 2^53.
Expr general_power(const Expr& x, const Expr& exponent) {
  const DType t = is_float(x.dtype()) ? compute_type(x.dtype()) : DType::kF64;
  return ir::call(Intrinsic::kPow, {te::to_type(t, x), te::to_type(t, exponent)});
}

Result<Buffers> define_pow(te::DagBuilder& b, const std::string& name, const NodeView& node,
                           const Buffers& inputs) {
  const DType t = node.dtype(0);
  return compute(b, name, node, inputs, [&](const std::vector<Expr>& x) {
    const Expr known = te::to_type(DType::kF64, x[1]);
    const auto* exponent = known.as<ir::FloatImm>();
    if (exponent && (is_float(t) || is_small_integer(exponent->value))) {
      return te::to_type(t, power(te::to_type(compute_type(t), x[0]), exponent->value));
    }
    return te::to_type(t, general_power(x[0], x[1]));
  });
}

Result<Types> infer_where(const NodeView& node) {
  TESSERA_DO(check_operands(node, 3));
  if (node.dtype(0) != DType::kBool) {
    return make_error(ErrorCode::kInvalidArgument, "the condition is {}, bool is needed",
                      to_text(node.dtype(0)));
  }
  if (node.dtype(1) != node.dtype(2)) return differ(node.dtype(1), node.dtype(2));
  return broadcast_output(node, node.dtype(1));
}

Result<Buffers> define_where(te::DagBuilder& b, const std::string& name, const NodeView& node,
                             const Buffers& inputs) {
  return compute(b, name, node, inputs,
                 [](const std::vector<Expr>& x) { return ir::select(x[0], x[1], x[2]); });
}

Result<Types> infer_cast(const NodeView& node) {
  TESSERA_DO(check_operands(node, 1));
  return broadcast_output(node, node.attrs.dtype("to"));
}

Result<Buffers> define_cast(te::DagBuilder& b, const std::string& name, const NodeView& node,
                            const Buffers& inputs) {
  const DType to = node.attrs.dtype("to");
  return compute(b, name, node, inputs,
                 [&](const std::vector<Expr>& x) { return te::to_type(to, x[0]); });
}

// bitcast {to}: the same bits as another type of the same size; bool has none.
Result<Types> infer_bitcast(const NodeView& node) {
  TESSERA_DO(check_operands(node, 1));
  const DType from = node.dtype(0), to = node.attrs.dtype("to");
  if (size_bytes(from) != size_bytes(to) || from == DType::kBool || to == DType::kBool) {
    return make_error(ErrorCode::kInvalidArgument, "the bits of {} cannot be read as {}",
                      to_text(from), to_text(to));
  }
  return broadcast_output(node, to);
}

Result<Buffers> define_bitcast(te::DagBuilder& b, const std::string& name, const NodeView& node,
                               const Buffers& inputs) {
  const DType to = node.attrs.dtype("to");
  return compute(b, name, node, inputs, [&](const std::vector<Expr>& x) {
    return to == x[0].dtype() ? x[0] : ir::Call::make_bitcast(to, x[0]);
  });
}

Result<std::vector<HostTensor>> evaluate_bitcast(const NodeView& node,
                                                 const std::vector<const HostTensor*>& in) {
  HostTensor out(node.attrs.dtype("to"), in[0]->shape());
  if (out.bytes() != 0) std::memcpy(out.data(), in[0]->data(), out.bytes());
  return std::vector<HostTensor>{out};
}

template <std::size_t... row>
std::vector<OpDef> make_rows(std::index_sequence<row...>) {
  return {OpDef{.name = kRows[row].name,
                .fusion = Fusion::kPointwise,
                .infer = infer_row<row>,
                .define = define_row<row>}...};
}

}  // namespace

std::vector<OpDef> pointwise_ops() {
  std::vector<OpDef> ops = make_rows(std::make_index_sequence<kRows.size()>());
  ops.push_back({.name = "bitcast",
                 .fusion = Fusion::kPointwise,
                 .infer = infer_bitcast,
                 .define = define_bitcast,
                 .evaluate = evaluate_bitcast});
  ops.push_back(
      {.name = "cast", .fusion = Fusion::kPointwise, .infer = infer_cast, .define = define_cast});
  ops.push_back(
      {.name = "pow", .fusion = Fusion::kPointwise, .infer = infer_pow, .define = define_pow});
  ops.push_back({.name = "where",
                 .fusion = Fusion::kPointwise,
                 .infer = infer_where,
                 .define = define_where});
  return ops;
}

}  // namespace tessera::graph
