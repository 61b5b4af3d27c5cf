// Products of matrices, recurrent layers and attention.
#include <algorithm>

#include "draw.h"

namespace tessera::fuzz {
namespace {

// The other side is a weight, or a value that happens to fit.
std::string other_side(Draw& d, DType t, const Shape& shape) {
  return d.chance(0.3) ? d.shaped(t, shape, within(-4, 4)) : d.weight(t, shape);
}

bool matmul(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4}, within(-30, 30));
  const Shape s = d.shape(x);
  const std::int64_t n = d.chance(0.1) ? d.between(34, 130) : d.dim();
  Shape w = {s.back(), n};
  if (s.size() > 2 && d.chance(0.4)) w.insert(w.begin(), s.begin(), s.end() - 2);
  if (w.size() > 2 && d.chance(0.3)) w[0] = 1;
  if (d.chance(0.1)) w = {s.back()};
  if (elements(w) > 4 * d.max_elements()) return false;
  return d.emit(row.name, {x, other_side(d, d.dtype(x), w)});
}

// Several products of one value, as the projections of attention.
bool siblings(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {2, 4}, within(-30, 30));
  const std::int64_t k = d.shape(x).back(), n = d.between(1, 8);
  for (std::int64_t count = d.between(2, 3); count > 0; --count) {
    const std::int64_t columns = d.chance(0.7) ? n : d.between(1, 8);
    const std::string w = d.constant(d.tensor(d.dtype(x), {k, columns}, within(-1, 1)));
    if (!d.emit(row.name, {x, w})) return false;
    const std::string y = d.outputs[0];
    if (d.chance(0.5)) d.emit("Add", {y, d.weight(d.dtype(x), {columns})});
  }
  return true;
}

bool gemm(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {2, 2}, within(-30, 30));
  const bool ta = d.chance(0.3), tb = d.chance(0.4);
  const std::int64_t k = d.shape(x)[ta ? 0 : 1], m = d.shape(x)[ta ? 1 : 0], n = d.dim();
  Names in = {x, other_side(d, d.dtype(x), tb ? Shape{n, k} : Shape{k, n})};
  if (d.chance(0.7)) {
    in.push_back(
        d.weight(d.dtype(x), d.one_of(std::vector<Shape>{{n}, {1, n}, {m, 1}, {m, n}, {}})));
  }
  Attributes attributes = {attr("transA", ta), attr("transB", tb)};
  if (d.chance(0.4)) attributes.push_back(attr("alpha", 0.5F));
  if (d.chance(0.4)) attributes.push_back(attr("beta", 1.5F));
  return d.emit(row.name, in, attributes);
}

bool einsum(Draw& d, const OpRow& row) {
  static const std::vector<std::string> equations = {
      "ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "bhid,bhjd->bhij", "ij->ji",  "ij->i",
      "ii->i",     "i,j->ij",   "ij,ij->",      "bij,jk->bki",     "ijk->kij"};
  const std::string equation = d.one_of(equations);
  std::map<char, std::int64_t> sizes;
  for (const char c : equation) sizes[c] = d.between(1, 6);
  Names in;
  const DType t = d.type(row.types);
  std::string terms = equation.substr(0, equation.find('-')) + ",";
  while (!terms.empty()) {
    const std::string term = terms.substr(0, terms.find(','));
    terms.erase(0, term.size() + 1);
    Shape s;
    for (const char c : term) s.push_back(sizes[c]);
    in.push_back(d.shaped(t, s, within(-30, 30)));
  }
  return d.emit(row.name, in, {attr("equation", equation)});
}

bool det(Draw& d, const OpRow& row) {
  const std::int64_t n = d.between(1, 4);
  return d.emit(row.name,
                {d.shaped(d.type(row.types), d.chance(0.5) ? Shape{n, n} : Shape{2, n, n})});
}

// RNN, GRU and LSTM differ in the number of gates.
bool recurrent(Draw& d, const OpRow& row) {
  const std::string name = row.name;
  const std::int64_t gates = name == "LSTM" ? 4 : name == "GRU" ? 3 : 1;
  const std::int64_t hidden = d.between(1, 5), length = d.between(1, 4), batch = d.between(1, 3),
                     size = d.between(1, 6);
  const std::string direction =
      d.one_of(std::vector<std::string>{"forward", "reverse", "bidirectional"});
  const std::int64_t ways = direction == "bidirectional" ? 2 : 1;
  const DType t = d.type(row.types);
  Names in = {d.shaped(t, {length, batch, size}, within(-10, 10)),
              d.constant(d.tensor(t, {ways, gates * hidden, size}, within(-1, 1))),
              d.constant(d.tensor(t, {ways, gates * hidden, hidden}, within(-1, 1)))};
  if (d.chance(0.6))
    in.push_back(d.constant(d.tensor(t, {ways, 2 * gates * hidden}, within(-1, 1))));
  if (in.size() == 4 && d.chance(0.4)) {
    in.push_back(
        d.chance(0.5) ? "" : d.fresh(DType::kI32, {batch}, within(1, static_cast<double>(length))));
    in.push_back(d.shaped(t, {ways, batch, hidden}, within(-2, 2)));
  }
  Attributes attributes = {attr("hidden_size", hidden), attr("direction", direction)};
  if (name == "GRU") attributes.push_back(attr("linear_before_reset", d.chance(0.5)));
  return d.emit(name, in, attributes, name == "LSTM" ? 3 : 2);
}

bool attention(Draw& d, const OpRow& row) {
  const std::int64_t b = d.between(1, 2), h = d.between(1, 3), n = d.between(1, 5),
                     m = d.between(1, 6), e = d.between(1, 5), v = d.between(1, 5);
  const DType t = d.type(row.types);
  const Range r = within(-6, 6);
  Names in = {d.shaped(t, {b, h, n, e}, r), d.shaped(t, {b, h, m, e}, r),
              d.shaped(t, {b, h, m, v}, r)};
  if (d.chance(0.4)) in.push_back(d.shaped(t, {n, m}, within(-10, 10)));
  return d.emit(row.name, in, {attr("is_causal", d.chance(0.3)), attr("scale", 0.5F)});
}

bool rotary(Draw& d, const OpRow& row) {
  const std::int64_t b = d.between(1, 2), h = d.between(1, 3), n = d.between(1, 4),
                     half = d.between(1, 4);
  const DType t = d.type(row.types);
  return d.emit(
      row.name,
      {d.shaped(t, {b, h, n, 2 * half}), d.weight(t, {b, n, half}), d.weight(t, {b, n, half})},
      {attr("interleaved", d.chance(0.5))});
}

bool linear_attention(Draw& d, const OpRow& row) {
  const std::int64_t b = d.between(1, 2), h = d.between(1, 2), n = d.between(1, 4),
                     k = d.between(1, 4), v = d.between(1, 4);
  const DType t = d.type(row.types);
  const Range r = within(-1, 1);
  return d.emit(
      row.name,
      {d.shaped(t, {b, n, h * k}, r), d.shaped(t, {b, n, h * k}, r), d.shaped(t, {b, n, h * v}, r)},
      {attr("q_num_heads", h), attr("kv_num_heads", h), attr("update_rule", std::string("linear")),
       attr("scale", 0.5F)},
      2);
}

bool causal_conv(Draw& d, const OpRow& row) {
  const std::int64_t b = d.between(1, 2), c = d.between(1, 5), n = d.between(1, 7),
                     k = d.between(1, 4);
  const DType t = d.type(row.types);
  Names in = {d.shaped(t, {b, c, n}, within(-20, 20)), d.weight(t, {c, 1, k})};
  if (d.chance(0.5)) in.push_back(d.weight(t, {c}));
  if (in.size() == 3 && k > 1 && d.chance(0.6))
    in.push_back(d.shaped(t, {b, c, k - 1}, within(-20, 20)));
  return d.emit(row.name, in, {attr("activation", std::string(d.chance(0.5) ? "silu" : "none"))},
                2);
}

}  // namespace

std::vector<OpRow> contraction_rows() {
  return {
      {"MatMul", kFloats | kIndex, matmul},
      {"MatMul", kF32Only, matmul},
      {"MatMul", kFloats, siblings},
      {"Gemm", kFloats, gemm, 13},
      {"Einsum", kFloats | kIndex, einsum, 12},
      {"Det", bit(DType::kF32) | bit(DType::kF64), det, 11},
      {"RNN", bit(DType::kF32) | bit(DType::kF16), recurrent, 14},
      {"GRU", bit(DType::kF32) | bit(DType::kF16), recurrent, 14},
      {"LSTM", bit(DType::kF32) | bit(DType::kF16), recurrent, 14},
      {"Attention", kFloats, attention, 23},
      {"RotaryEmbedding", bit(DType::kF32) | kHalf, rotary, 23},
      {"LinearAttention", bit(DType::kF32) | kHalf, linear_attention, 27},
      {"CausalConvWithState", bit(DType::kF32) | kHalf, causal_conv, 27},
  };
}

}  // namespace tessera::fuzz
