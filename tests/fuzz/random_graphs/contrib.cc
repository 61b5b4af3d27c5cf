// Operators of domain com.microsoft on floats.
#include "draw.h"

namespace tessera::fuzz {
namespace {

bool activation(Draw& d, const OpRow& row) {
  return d.emit(row.name, {d.any(d.type(row.types), {})}, {}, 1, row.domain);
}

bool biased(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4});
  const Shape last = {d.shape(x).back()};
  return d.emit(row.name, {x, d.weight(d.dtype(x), last)}, {}, 1, row.domain);
}

bool product(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {2, 4}, within(-30, 30));
  const Shape s = d.shape(x);
  const bool ta = d.chance(0.4), tb = d.chance(0.4);
  const std::int64_t k = s[s.size() - (ta ? 2 : 1)], n = d.dim();
  return d.emit(row.name, {x, d.weight(d.dtype(x), tb ? Shape{n, k} : Shape{k, n})},
                {attr("transA", ta), attr("transB", tb), attr("alpha", 0.5F)}, 1, row.domain);
}

bool skip_norm(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {2, 3}, within(-50, 50));
  const DType t = d.dtype(x);
  const Shape last = {d.shape(x).back()};
  Names in = {x, d.shaped(t, d.shape(x), within(-50, 50)), d.weight(t, last)};
  if (d.chance(0.5)) in.push_back(d.weight(t, last));
  return d.emit(row.name, in, {attr("epsilon", 0.01F)}, 1, row.domain);
}

bool rms_norm(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4}, within(-50, 50));
  const Shape last = {d.shape(x).back()};
  return d.emit(row.name, {x, d.weight(d.dtype(x), last)}, {attr("epsilon", 0.01F)}, 1, row.domain);
}

bool embeddings(Draw& d, const OpRow& row) {
  const std::int64_t words = d.between(2, 9), width = d.between(1, 8), length = d.between(1, 5),
                     batch = d.between(1, 2);
  const DType t = d.type(row.types);
  const auto ids = [&](std::int64_t n) {
    return d.fresh(DType::kI32, {batch, length}, within(0, static_cast<double>(n - 1)));
  };
  return d.emit(row.name,
                {ids(words), ids(2), d.weight(t, {words, width}), d.weight(t, {length + 2, width}),
                 d.weight(t, {2, width}), d.weight(t, {width}), d.weight(t, {width})},
                {attr("epsilon", 0.01F)}, 2, row.domain);
}

}  // namespace

std::vector<OpRow> contrib_rows() {
  constexpr Types kUsual = bit(DType::kF32) | bit(DType::kF16);
  return {
      {"Gelu", kUsual, activation, 1, kFree, {}, kMicrosoft},
      {"FastGelu", kUsual, activation, 1, kFree, {}, kMicrosoft},
      {"QuickGelu", kUsual, activation, 1, kFree, {}, kMicrosoft},
      {"BiasGelu", kUsual, biased, 1, kFree, {}, kMicrosoft},
      {"FusedMatMul", kUsual, product, 1, kFree, {}, kMicrosoft},
      {"SkipLayerNormalization", kUsual, skip_norm, 1, kFree, {}, kMicrosoft},
      {"SkipSimplifiedLayerNormalization", kUsual, skip_norm, 1, kFree, {}, kMicrosoft},
      {"SimplifiedLayerNormalization", kUsual, rms_norm, 1, kFree, {}, kMicrosoft},
      {"EmbedLayerNormalization", kUsual, embeddings, 1, kFree, {}, kMicrosoft},
  };
}

}  // namespace tessera::fuzz
