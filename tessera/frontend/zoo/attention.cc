#include "tessera/frontend/zoo/attention.h"

#include <algorithm>
#include <cmath>

#include "tessera/support/float_format.h"

namespace tessera::zoo {

double lowest(const ModelBuilder& b) { return -float_format(b.dtype()).largest(); }

std::int64_t head_size(ModelBuilder& b, std::int64_t width, std::int64_t heads) {
  if (width % heads != 0) b.refuse("hidden={} is not a multiple of heads={}", width, heads);
  return width / heads;
}

Value split_heads(ModelBuilder& b, const Value& x, std::int64_t heads) {
  const Value y = reshape(b, x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
  return transpose(b, y, {0, 2, 1, 3});
}

Value split_heads_transposed(ModelBuilder& b, const Value& x, std::int64_t heads) {
  const Value y = reshape(b, x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
  return transpose(b, y, {0, 2, 3, 1});
}

Value merge_heads(ModelBuilder& b, const Value& x) {
  const Value y = transpose(b, x, {0, 2, 1, 3});
  return reshape(b, y, {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

Value attention_scores(ModelBuilder& b, const Value& q, const Value& k) {
  const auto d = static_cast<double>(q.shape.back());
  return div(b, matmul(b, q, k, {.var = d}), b.scalar(std::sqrt(d)));
}

Value attend(ModelBuilder& b, const Value& scores, const Value& v) {
  // Weights exp(z) / sum with z of variance 1 leave e / n of the variance.
  const double n = static_cast<double>(std::max<std::int64_t>(1, scores.shape.back()));
  Moments m = v.moments;
  m.var *= std::min(1.0, std::exp(1.0) / n);
  return matmul(b, softmax(b, scores), v, m);
}

}  // namespace tessera::zoo
