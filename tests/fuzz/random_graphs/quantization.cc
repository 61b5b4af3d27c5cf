// Small integers that stand for floats.
#include <algorithm>

#include "draw.h"

namespace tessera::fuzz {
namespace {

std::string scale(Draw& d, const Shape& shape, DType t = DType::kF32) {
  return d.constant(d.tensor(t, shape, within(0.02, 0.3)));
}

std::string zero(Draw& d, DType t, const Shape& shape = {}) {
  const Range r = is_unsigned_int(t) ? within(90, 150) : within(-20, 20);
  return d.constant(d.tensor(t, shape, r));
}

// Scale and zero point for all, or one along an axis.
bool quantize(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {0, 4}, within(-100, 100));
  const DType to = d.type(kBytes | (d.opset >= 21 ? bit(DType::kI16) | bit(DType::kU16) : 0));
  const DType ts = d.opset >= 19 ? d.dtype(x) : DType::kF32;
  if (d.rank(x) == 0 || d.chance(0.5)) {
    Names in = {x, scale(d, {}, ts)};
    if (to != DType::kU8 || d.chance(0.7)) in.push_back(zero(d, to));
    return d.emit(row.name, in);
  }
  const std::int64_t axis = d.axis(d.rank(x));
  const Shape along = {d.shape(x)[static_cast<std::size_t>(axis < 0 ? axis + d.rank(x) : axis)]};
  return d.emit(row.name, {x, scale(d, along, ts), zero(d, to, along)}, {attr("axis", axis)});
}

bool dequantize(Draw& d, const OpRow& row) {
  const DType t = d.type(row.types | (d.opset >= 21 ? bit(DType::kI16) | bit(DType::kU16) : 0));
  const std::string x = d.any(t, {0, 4});
  const DType ts = d.opset >= 19 && d.chance(0.2) ? DType::kF16 : DType::kF32;
  if (d.rank(x) == 0 || d.chance(0.5)) {
    Names in = {x, scale(d, {}, ts)};
    if (t != DType::kI32 && d.chance(0.7)) in.push_back(zero(d, t));
    return d.emit(row.name, in);
  }
  const std::int64_t axis = d.axis(d.rank(x));
  const Shape along = {d.shape(x)[static_cast<std::size_t>(axis < 0 ? axis + d.rank(x) : axis)]};
  Names in = {x, scale(d, along, ts)};
  if (t != DType::kI32) in.push_back(zero(d, t, along));
  return d.emit(row.name, in, {attr("axis", axis)});
}

bool dynamic_quantize(Draw& d, const OpRow& row) {
  const std::string x = d.any(DType::kF32, {1, 4}, within(-100, 100));
  return elements(d.shape(x)) > 0 && d.emit(row.name, {x}, {}, 3);
}

bool matmul_integer(Draw& d, const OpRow& row) {
  const DType t = d.type(row.types), u = d.type(kBytes);
  const std::string x = d.any(t, {2, 3});
  const std::int64_t k = d.shape(x).back(), n = d.dim();
  const std::string w = d.weight(u, {k, n}, kFree);
  const std::string name = row.name;
  if (name == "MatMulInteger") {
    Names in = {x, w};
    if (d.chance(0.6)) in.push_back(zero(d, t));
    if (in.size() == 3 && d.chance(0.5))
      in.push_back(zero(d, u, d.chance(0.5) ? Shape{n} : Shape{}));
    return d.emit(name, in);
  }
  if (name == "MatMulIntegerToFloat") {
    Names in = {x,          w,         scale(d, {}), scale(d, d.chance(0.5) ? Shape{n} : Shape{}),
                zero(d, t), zero(d, u)};
    if (d.chance(0.5)) in.push_back(d.weight(DType::kF32, {n}));
    return d.emit(name, in, {}, 1, row.domain);
  }
  const std::string ys = d.constant(d.tensor(DType::kF32, {}, within(1, 9)));
  return d.emit(name, {x, scale(d, {}), zero(d, t), w, scale(d, {}), zero(d, u), ys, zero(d, t)});
}

bool dynamic_matmul(Draw& d, const OpRow& row) {
  const std::string x = d.any(DType::kF32, {2, 3}, within(-50, 50));
  if (elements(d.shape(x)) == 0) return false;
  const std::int64_t n = d.between(1, 9);
  const DType u = d.type(kBytes);
  Names in = {x, d.weight(u, {d.shape(x).back(), n}, kFree), scale(d, {}), zero(d, u)};
  if (d.chance(0.5)) in.push_back(d.weight(DType::kF32, {n}));
  return d.emit(row.name, in, {}, 1, row.domain);
}

// x, its scale and zero point, and for operators of two the same again; then those of the result.
bool qlinear(Draw& d, const OpRow& row) {
  const std::string name = row.name;
  const DType t = d.type(row.types);
  const std::string x = d.any(t, name == "QLinearGlobalAveragePool" ? Ranks{3, 5} : Ranks{});
  if (name == "QLinearGlobalAveragePool" && elements(d.shape(x)) == 0) return false;
  Names in = {x, scale(d, {}), zero(d, t)};
  if (name == "QLinearAdd" || name == "QLinearMul") {
    in.insert(in.end(), {d.broadcast(t, d.shape(x)), scale(d, {}), zero(d, t)});
  }
  in.insert(in.end(), {scale(d, {}), zero(d, t)});
  return d.emit(name, in, {}, 1, row.domain);
}

bool qlinear_concat(Draw& d, const OpRow& row) {
  const DType t = d.type(row.types);
  const std::string x = d.any(t, {1, 4});
  const Names in = {scale(d, {}), zero(d, t), x, scale(d, {}), zero(d, t), d.shaped(t, d.shape(x)),
                    scale(d, {}), zero(d, t)};
  return d.emit(row.name, in, {attr("axis", d.axis(d.rank(x)))}, 1, row.domain);
}

// Quantised and back: what products of bytes are found by.
bool round_trip(Draw& d, const OpRow& row) {
  const Shape whole = {d.between(1, 5), 4 * d.between(1, 3)};  // dot products of four bytes
  const std::string x = d.chance(0.4) ? d.shaped(DType::kF32, whole, within(-20, 20))
                                      : d.any(DType::kF32, {1, 4}, within(-20, 20));
  const DType to = d.type(kBytes);
  const std::string s = scale(d, {}), z = zero(d, to);
  if (!d.emit("QuantizeLinear", {x, s, z})) return false;
  if (!d.emit("DequantizeLinear", {Names(d.outputs)[0], s, z})) return false;
  if (!d.chance(0.6)) return true;
  const std::string left = d.outputs[0];
  const std::string w =
      d.constant(d.tensor(DType::kI8, {d.shape(x).back(), d.between(1, 9)}, kFree));
  if (!d.emit("DequantizeLinear", {w, scale(d, {}), d.scalar(DType::kI8, 0)})) return true;
  d.emit("MatMul", {left, Names(d.outputs)[0]});
  return row.types != 0;
}

}  // namespace

std::vector<OpRow> quantization_rows() {
  return {
      {"QuantizeLinear", bit(DType::kF32) | bit(DType::kF16), quantize, 10},
      {"DequantizeLinear", kBytes | bit(DType::kI32), dequantize, 10},
      {"QuantizeLinear", kF32Only, round_trip, 10},
      {"DynamicQuantizeLinear", kF32Only, dynamic_quantize, 11},
      {"MatMulInteger", kBytes, matmul_integer, 10},
      {"QLinearMatMul", kBytes, matmul_integer, 10},
      {"MatMulIntegerToFloat", kBytes, matmul_integer, 1, kFree, {}, kMicrosoft},
      {"DynamicQuantizeMatMul", kF32Only, dynamic_matmul, 1, kFree, {}, kMicrosoft},
      {"QLinearAdd", kBytes, qlinear, 1, kFree, {}, kMicrosoft},
      {"QLinearMul", kBytes, qlinear, 1, kFree, {}, kMicrosoft},
      {"QLinearSigmoid", kBytes, qlinear, 1, kFree, {}, kMicrosoft},
      {"QLinearLeakyRelu", kBytes, qlinear, 1, kFree, {}, kMicrosoft},
      {"QLinearGlobalAveragePool", kBytes, qlinear, 1, kFree, {}, kMicrosoft},
      {"QLinearConcat", kBytes, qlinear_concat, 1, kFree, {}, kMicrosoft},
  };
}

}  // namespace tessera::fuzz
