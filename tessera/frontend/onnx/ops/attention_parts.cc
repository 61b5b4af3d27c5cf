#include "tessera/frontend/onnx/ops/attention_parts.h"

#include "tessera/frontend/onnx/ops/shapes.h"

namespace tessera::onnx {

Term split_heads(Formula& f, Term x, std::int64_t heads) {
  if (f.failed()) return x;
  const Shape s = f.shape(x);
  return transpose(f, f.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

Term merge_heads(Formula& f, Term y) {
  if (f.failed()) return y;
  const Shape s = f.shape(y);
  return f.reshape(transpose(f, y, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

Term per_head(Formula& f, Term x, Term y, bool values) {
  if (f.failed()) return x;
  const Shape xs = f.shape(x), ys = f.shape(y);
  const std::int64_t shared = xs[1] / ys[1];
  if (shared == 1) {
    return values ? contract(f, x, "bhik", y, "bhkj", "bhij")
                  : contract(f, x, "bhik", y, "bhjk", "bhij");
  }
  const Term split = f.reshape(x, {xs[0], ys[1], shared, xs[2], xs[3]});
  const Term product = values ? contract(f, split, "bhgik", y, "bhkj", "bhgij")
                              : contract(f, split, "bhgik", y, "bhjk", "bhgij");
  return f.reshape(product, {xs[0], xs[1], xs[2], values ? ys[3] : ys[2]});
}

Term counting(Formula& f, std::int64_t size, std::int64_t start) {
  if (f.failed()) return f.value(kNoValue);
  HostTensor t(DType::kI64, {size});
  for (std::int64_t i = 0; i < size; ++i) t.set_int(i, start + i);
  return f.constant(std::move(t));
}

Term key_positions(Formula& f, std::int64_t keys) {
  return f.reshape(counting(f, keys), {1, keys});
}

Term query_positions(Formula& f, Term first, std::int64_t queries) {
  if (f.failed() || queries == 1) return first;
  return first + f.reshape(counting(f, queries), {queries, 1});
}

Term rotate(Formula& f, Term x, Term cosine, Term sine, bool interleaved) {
  if (f.failed()) return x;
  const Shape whole = f.shape(x);
  const std::size_t axis = whole.size() - 1;
  const std::int64_t half = f.shape(cosine).back(), rotated = 2 * half;
  const Term a = interleaved ? slice(f, x, axis, 0, half, 2) : slice(f, x, axis, 0, half);
  const Term b = interleaved ? slice(f, x, axis, 1, half, 2) : slice(f, x, axis, half, half);
  const Term real = cosine * a - sine * b, imaginary = sine * a + cosine * b;
  std::vector<Term> parts = {real, imaginary};
  if (interleaved) {
    Shape column = whole, pairs = whole;
    column.back() = half;
    column.push_back(1);
    pairs.back() = rotated;
    parts = {f.reshape(concat(f, {f.reshape(real, column), f.reshape(imaginary, column)}, axis + 1),
                       pairs)};
  }
  if (rotated < whole.back()) parts.push_back(slice(f, x, axis, rotated, whole.back() - rotated));
  return concat(f, parts, axis);
}

}  // namespace tessera::onnx
