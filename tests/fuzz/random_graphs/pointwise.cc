// Functions of single elements.
#include <cmath>

#include "draw.h"

namespace tessera::fuzz {
namespace {

bool unary(Draw& d, const OpRow& row) {
  return d.emit(row.name, {d.any(d.type(row.types), row.ranks, row.range)}, {}, 1, row.domain);
}

// With one number that may be left out.
bool with_alpha(Draw& d, const OpRow& row) {
  Attributes attributes;
  if (d.chance(0.6)) {
    attributes.push_back(attr("alpha", static_cast<float>(d.between(1, 12)) / 8));
  }
  return d.emit(row.name, {d.any(d.type(row.types), {}, row.range)}, attributes, 1, row.domain);
}

Names pair(Draw& d, Types types, Range left, Range right) {
  const DType t = d.type(types);
  const std::string a = d.any(t, {}, left);
  return {a, d.broadcast(t, d.shape(a), right)};
}

bool binary(Draw& d, const OpRow& row) {
  Names in = pair(d, row.types, row.range, row.range);
  if (d.chance(0.5)) std::swap(in[0], in[1]);
  return d.emit(row.name, in);
}

// The second operand is far from zero and positive.
bool quotient(Draw& d, const OpRow& row) {
  return d.emit(row.name, pair(d, row.types, within(-1000, 1000), within(0.5, 40)));
}

bool remainder(Draw& d, const OpRow& row) {
  const Names in = pair(d, row.types, within(-1000, 1000), within(1, 40));
  const bool fmod = is_float(d.dtype(in[0])) || d.chance(0.3);
  return d.emit(row.name, in, {attr("fmod", fmod ? 1 : 0)});
}

bool power(Draw& d, const OpRow& row) {
  const DType t = d.type(row.types);
  const std::string a = d.any(t, {}, is_float(t) ? within(0.2, 4) : within(0, 3));
  // A fraction of an integer power would be cut off: integers have integer exponents.
  const DType e = d.chance(0.6) ? t : d.type(is_float(t) ? kFloats | kIndex : kIndex);
  return d.emit(row.name,
                {a, d.broadcast(e, d.shape(a), is_float(e) ? within(-2, 2) : within(0, 3))});
}

bool shift(Draw& d, const OpRow& row) {
  const DType t = d.type(row.types);
  const std::string a = d.any(t, {});
  const std::string by = d.broadcast(t, d.shape(a), within(0, 7));
  return d.emit(row.name, {a, by},
                {attr("direction", std::string(d.chance(0.5) ? "LEFT" : "RIGHT"))});
}

bool variadic(Draw& d, const OpRow& row) {
  Names in = pair(d, row.types, row.range, row.range);
  if (d.chance(0.2)) in.pop_back();
  if (d.chance(0.4)) in.push_back(d.broadcast(d.dtype(in[0]), d.shape(in[0]), row.range));
  return d.emit(row.name, in);
}

bool where(Draw& d, const OpRow& row) {
  const Names in = pair(d, row.types, kFree, kFree);
  return d.emit(row.name, {d.broadcast(DType::kBool, d.shape(in[0])), in[0], in[1]});
}

bool clip(Draw& d, const OpRow& row) {
  const DType t = d.type(row.types);
  Names in = {d.any(t, {}), d.scalar(t, is_unsigned_int(t) ? 1 : -1), d.scalar(t, 2)};
  if (d.chance(0.2)) in[1] = "";
  if (d.chance(0.2)) in.pop_back();
  return d.emit(row.name, in);
}

bool is_positive(const HostTensor& t) {
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (t.get_float(i) < 0) return false;
  }
  return true;
}

std::int64_t number_of(DType t) {
  constexpr std::int64_t kNumber[] = {9, 3, 2, 5, 4, 6, 12, 7, 13, 10, 16, 1, 11};
  return kNumber[static_cast<std::size_t>(t)];
}

// Only what every type of the result holds.
bool cast(Draw& d, const OpRow& row) {
  const DType from = d.type(kAll), to = d.type(kAll);
  const std::string x =
      d.any(from, {}, is_float(from) && !is_float(to) ? within(-120, 120) : kFree);
  if (is_unsigned_int(to) && is_float(from) && !is_positive(d.value(x))) return false;
  if (row.name == std::string("CastLike")) {
    return d.emit(row.name, {x, d.any(to, {})});
  }
  return d.emit(row.name, {x}, {attr("to", number_of(to))});
}

bool bit_cast(Draw& d, const OpRow& row) {
  const DType from = d.type(kInts);
  constexpr std::pair<DType, DType> kSame[] = {
      {DType::kI8, DType::kU8},   {DType::kU8, DType::kI8},   {DType::kI16, DType::kU16},
      {DType::kU16, DType::kI16}, {DType::kI32, DType::kU32}, {DType::kU32, DType::kI32},
      {DType::kI64, DType::kU64}, {DType::kU64, DType::kI64}};
  for (const auto& [a, b] : kSame) {
    if (a == from) return d.emit(row.name, {d.any(from, {})}, {attr("to", number_of(b))});
  }
  return false;
}

bool prelu(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {});
  Shape s = d.shape(x);
  s.erase(s.begin(), s.begin() + d.between(0, std::ssize(s)));
  for (std::int64_t& n : s) n = d.chance(0.3) ? 1 : n;
  return d.emit(row.name, {x, d.weight(d.dtype(x), s)});
}

bool shrink(Draw& d, const OpRow& row) {
  return d.emit(row.name, {d.any(d.type(row.types), {})},
                {attr("lambd", 0.75F), attr("bias", 0.25F)});
}

bool hard_sigmoid(Draw& d, const OpRow& row) {
  return d.emit(row.name, {d.any(d.type(row.types), {})},
                {attr("alpha", 0.25F), attr("beta", 0.375F)});
}

bool gelu(Draw& d, const OpRow& row) {
  return d.emit(row.name, {d.any(d.type(row.types), {})},
                {attr("approximate", std::string(d.chance(0.5) ? "tanh" : "none"))});
}

bool gated(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {});
  return d.emit(row.name, {x, d.shaped(d.dtype(x), d.shape(x))});
}

// Elements that are no numbers: only these operators take them.
bool classify(Draw& d, const OpRow& row) {
  HostTensor t = d.tensor(d.type(row.types), d.shape(Ranks{}), kFree);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (d.chance(0.2)) t.set_float(i, HUGE_VAL * (d.chance(0.5) ? 1 : -1));
    if (d.chance(0.1)) t.set_float(i, NAN);
  }
  Attributes attributes;
  if (row.name == std::string("IsInf") && d.chance(0.5)) {
    attributes.push_back(attr(d.chance(0.5) ? "detect_negative" : "detect_positive", 0));
  }
  return d.emit(row.name, {d.input(t)}, attributes);
}

}  // namespace

std::vector<OpRow> pointwise_rows() {
  constexpr Types kNegative = kFloats | kSigned;
  constexpr Range kSmall = within(-5, 5);
  return {
      {"Abs", kNumbers, unary},
      {"Acos", kFloats, unary, 7, within(-0.9, 0.9)},
      {"Acosh", kFloats, unary, 9, within(1.2, 30)},
      {"Asin", kFloats, unary, 7, within(-0.9, 0.9)},
      {"Asinh", kFloats, unary, 9},
      {"Atan", kFloats, unary, 7},
      {"Atanh", kFloats, unary, 9, within(-0.9, 0.9)},
      {"BitwiseNot", kInts, unary, 18},
      {"Ceil", kFloats, unary},
      {"Cos", kFloats, unary, 7, within(-40, 40)},
      {"Cosh", kFloats, unary, 9, kSmall},
      {"Erf", kFloats, unary, 9},
      {"Exp", kFloats, unary, 1, kSmall},
      {"Floor", kFloats, unary},
      {"Log", kFloats, unary, 1, within(0.1, 1e4)},
      {"Neg", kNegative, unary},
      {"Not", kBool, unary},
      {"Reciprocal", kFloats, unary, 1, within(0.2, 1e3)},
      {"Round", kFloats, unary, 11},
      {"Sigmoid", kFloats, unary},
      {"Sign", kNumbers, unary, 9},
      {"Sin", kFloats, unary, 7, within(-40, 40)},
      {"Sinh", kFloats, unary, 9, kSmall},
      {"Sqrt", kFloats, unary, 1, within(0.05, 1e4)},
      {"Tan", kFloats, unary, 7, within(-1.2, 1.2)},
      {"Tanh", kFloats, unary},
      {"Identity", kAll, unary},
      {"Relu", kFloats | kSigned, unary, 14},
      {"Softplus", kFloats, unary},
      {"Softsign", kFloats, unary},
      {"Mish", kFloats, unary, 18},
      {"HardSwish", kFloats, unary, 14},
      {"Celu", kF32Only, with_alpha, 12},
      {"Elu", kFloats, with_alpha},
      {"LeakyRelu", kFloats, with_alpha},
      {"Selu", kFloats, with_alpha},
      {"Swish", kFloats, with_alpha, 24},
      {"ThresholdedRelu", kFloats, with_alpha, 10},
      {"HardSigmoid", kFloats, hard_sigmoid},
      {"Gelu", kFloats, gelu, 20},
      {"SwiGLU", kFloats, gated, 28},
      {"PRelu", kFloats, prelu},
      {"Shrink", kNumbers, shrink, 9},
      {"Add", kNumbers, binary},
      {"And", kBool, binary},
      {"BitwiseAnd", kInts, binary, 18},
      {"BitwiseOr", kInts, binary, 18},
      {"BitwiseXor", kInts, binary, 18},
      {"Div", kNumbers, quotient},
      {"Equal", kAll, binary},
      {"Greater", kNumbers, binary},
      {"GreaterOrEqual", kNumbers, binary, 12},
      {"Less", kNumbers, binary},
      {"LessOrEqual", kNumbers, binary, 12},
      {"Mul", kNumbers, binary},
      {"Or", kBool, binary},
      {"Pow", kFloats | kIndex, power, 12},
      {"Sub", kNumbers, binary},
      {"Xor", kBool, binary},
      {"Mod", kNumbers, remainder, 13},
      {"BitShift", kUnsigned, shift, 11},
      {"Max", kNumbers, variadic},
      {"Min", kNumbers, variadic},
      {"Sum", kFloats, variadic},
      {"Mean", kFloats, variadic},
      {"Where", kAll, where, 9},
      {"Clip", kNumbers, clip, 12},
      {"Cast", kAll, cast},
      {"CastLike", kAll, cast, 15},
      {"BitCast", kInts, bit_cast, 26},
      {"IsNaN", kFloats, classify, 9},
      {"IsInf", bit(DType::kF32) | bit(DType::kF64), classify, 10},
  };
}

}  // namespace tessera::fuzz
