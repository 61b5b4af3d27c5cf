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

// Bias and the type of the result are left out now and then: without scale and zero point it is
// f32.
bool gemm(Draw& d, const OpRow& row) {
  const DType t = d.type(row.types), u = d.type(kBytes);
  const std::string x = d.any(t, {2, 2});
  const bool ta = d.chance(0.4), tb = d.chance(0.4);
  const std::int64_t k = d.shape(x)[ta ? 0 : 1], n = d.dim();
  const Shape columns = d.chance(0.5) ? Shape{n} : Shape{};
  Names in = {x,
              scale(d, {}),
              zero(d, t),
              d.weight(u, tb ? Shape{n, k} : Shape{k, n}, kFree),
              scale(d, columns),
              zero(d, u, columns)};
  in.push_back(d.chance(0.5) ? d.weight(DType::kI32, {n}, within(-2000, 2000)) : "");
  if (d.chance(0.6))
    in.insert(in.end(), {d.constant(d.tensor(DType::kF32, {}, within(1, 9))), zero(d, t)});
  return d.emit(row.name, in, {attr("transA", ta), attr("transB", tb), attr("alpha", 0.5F)}, 1,
                row.domain);
}

// Weights of few bits in blocks, of which the last may have elements to spare.
bool stored_product(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 3}, within(-30, 30));
  const std::int64_t k = d.shape(x).back(), n = d.between(1, 9);
  if (k == 0) return false;
  const std::int64_t bits = d.one_of(Shape{2, 4, 4, 8}), block = d.one_of(Shape{4, 8, 16, 32});
  const std::int64_t blocks = (k + block - 1) / block;
  const auto bytes = [&](const Shape& shape) {
    return d.constant(d.tensor(DType::kU8, shape, within(0, 255)));
  };
  Names in = {x, bytes({n, blocks, block * bits / 8}), scale(d, {n * blocks}, d.dtype(x))};
  const bool biased = d.chance(0.3);
  if (biased || d.chance(0.5))
    in.push_back(d.chance(0.7) ? bytes({n * ((blocks * bits + 7) / 8)}) : "");
  if (biased) in.insert(in.end(), {"", d.weight(d.dtype(x), {n})});
  return d.emit(row.name, in,
                {attr("K", k), attr("N", n), attr("bits", bits), attr("block_size", block)}, 1,
                row.domain);
}

// Scores stay small: what softmax makes of large ones depends on how they are rounded.
bool attention(Draw& d, const OpRow& row) {
  const std::int64_t batch = d.between(1, 2), length = d.between(1, 6), width = d.between(1, 8);
  const std::int64_t heads = d.between(1, 3), columns = 3 * heads * d.between(1, 4);
  const DType t = d.type(row.types), u = d.type(kBytes);
  const auto small = [&] { return d.constant(d.tensor(DType::kF32, {}, within(0.002, 0.02))); };
  const Range near = is_unsigned_int(u) ? within(100, 150) : within(-25, 25);
  Names in = {d.shaped(t, {batch, length, width}), d.weight(u, {width, columns}, near),
              d.weight(DType::kF32, {columns}), small(), small()};
  const bool keys = d.chance(0.3);
  in.push_back(d.chance(0.5) ? ""
               : keys        ? d.fresh(DType::kI32, {batch}, within(1, static_cast<double>(length)))
                             : d.fresh(DType::kI32, {batch, length}, within(0, 1)));
  if (d.chance(0.7)) in.insert(in.end(), {zero(d, t), zero(d, u)});
  return d.emit(row.name, in, {attr("num_heads", heads), attr("unidirectional", d.chance(0.4))}, 1,
                row.domain);
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
  Attributes attributes;
  if (name == "QLinearSoftmax") {
    if (d.rank(x) == 0 || elements(d.shape(x)) == 0) return false;
    attributes = {attr("opset", d.chance(0.7) ? 13 : 11), attr("axis", d.axis(d.rank(x)))};
  }
  return d.emit(name, in, attributes, 1, row.domain);
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
      {"QGemm", kBytes, gemm, 1, kFree, {}, kMicrosoft},
      {"MatMulNBits",
       bit(DType::kF32) | bit(DType::kF16),
       stored_product,
       1,
       kFree,
       {},
       kMicrosoft},
      {"QAttention", kBytes, attention, 1, kFree, {}, kMicrosoft},
      {"QLinearAdd", kBytes, qlinear, 1, kFree, {}, kMicrosoft},
      {"QLinearMul", kBytes, qlinear, 1, kFree, {}, kMicrosoft},
      {"QLinearSigmoid", kBytes, qlinear, 1, kFree, {}, kMicrosoft},
      {"QLinearLeakyRelu", kBytes, qlinear, 1, kFree, {}, kMicrosoft},
      {"QLinearGlobalAveragePool", kBytes, qlinear, 1, kFree, {}, kMicrosoft},
      {"QLinearSoftmax", kBytes, qlinear, 1, kFree, {}, kMicrosoft},
      {"QLinearConcat", kBytes, qlinear_concat, 1, kFree, {}, kMicrosoft},
  };
}

}  // namespace tessera::fuzz
