// Operators that read or write at positions, and those whose sizes follow from data.
#include <algorithm>
#include <numeric>

#include "draw.h"

namespace tessera::fuzz {
namespace {

std::size_t place(std::int64_t axis, std::int64_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

// Positions in [-n, n).
std::string positions(Draw& d, const Shape& shape, std::int64_t n) {
  const DType t = d.type(kIndex);
  return d.fresh(t, shape, within(static_cast<double>(-n), static_cast<double>(n - 1)));
}

bool gather(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4});
  const std::int64_t axis = d.axis(d.rank(x)), n = d.shape(x)[place(axis, d.rank(x))];
  if (n == 0) return false;
  Shape s = d.shape(Ranks{0, 2});
  if (elements(s) * elements(d.shape(x)) / n > d.max_elements()) s = {2};
  return d.emit(row.name, {x, positions(d, s, n)}, {attr("axis", axis)});
}

bool gather_elements(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4});
  const std::int64_t axis = d.axis(d.rank(x)), n = d.shape(x)[place(axis, d.rank(x))];
  if (n == 0) return false;
  Shape s = d.shape(x);
  for (std::int64_t& k : s) k = d.between(std::min<std::int64_t>(k, 1), k);
  s[place(axis, d.rank(x))] = d.between(1, 5);
  return d.emit(row.name, {x, positions(d, s, n)}, {attr("axis", axis)});
}

// Rows of indices into the first `depth` axes, each a different place.
HostTensor places(Draw& d, const Shape& shape, std::int64_t count, std::int64_t depth) {
  HostTensor t(DType::kI64, {count, depth});
  std::int64_t total = 1;
  for (std::int64_t k = 0; k < depth; ++k) total *= shape[static_cast<std::size_t>(k)];
  Shape order(static_cast<std::size_t>(total));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t k = order.size(); k > 1; --k) {
    std::swap(order[k - 1],
              order[static_cast<std::size_t>(d.rng.below(static_cast<std::int64_t>(k)))]);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = order[static_cast<std::size_t>(i)];
    for (std::int64_t k = depth; k-- > 0;) {
      const std::int64_t n = shape[static_cast<std::size_t>(k)];
      t.set_int(i * depth + k, rest % n - (d.chance(0.2) ? n : 0));
      rest /= n;
    }
  }
  return t;
}

bool gather_nd(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4});
  const std::int64_t depth = d.between(1, d.rank(x));
  if (elements(d.shape(x)) == 0) return false;
  std::int64_t most = 1;
  for (std::int64_t k = 0; k < depth; ++k) most *= d.shape(x)[static_cast<std::size_t>(k)];
  const HostTensor at = places(d, d.shape(x), d.between(1, std::min<std::int64_t>(most, 6)), depth);
  return d.emit(row.name, {x, d.chance(0.5) ? d.constant(at) : d.input(at)});
}

Attributes reduction(Draw& d, DType t, Attributes attributes) {
  if (d.opset < 16 || t == DType::kBool || d.chance(0.5)) return attributes;
  std::vector<std::string> kinds = {"add", "mul"};
  if (d.opset >= 18) kinds.insert(kinds.end(), {"max", "min"});
  attributes.push_back(attr("reduction", d.one_of(kinds)));
  return attributes;
}

bool scatter_nd(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4}, within(-1000, 1000));
  const Shape s = d.shape(x);
  if (elements(s) == 0) return false;
  const std::int64_t depth = d.between(1, d.rank(x));
  std::int64_t most = 1;
  for (std::int64_t k = 0; k < depth; ++k) most *= s[static_cast<std::size_t>(k)];
  const HostTensor at = places(d, s, d.between(1, std::min<std::int64_t>(most, 6)), depth);
  Shape updates(s.begin() + depth, s.end());
  updates.insert(updates.begin(), at.shape()[0]);
  const DType t = d.dtype(x);
  return d.emit(row.name, {x, d.chance(0.5) ? d.constant(at) : d.input(at), d.shaped(t, updates)},
                reduction(d, t, {}));
}

bool scatter_elements(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4}, within(-1000, 1000));
  const Shape s = d.shape(x);
  if (elements(s) == 0) return false;
  const std::int64_t axis = d.axis(d.rank(x));
  const std::size_t a = place(axis, d.rank(x));
  Shape u = s;
  for (std::int64_t& n : u) n = d.between(1, n);
  const HostTensor order = places(d, {s[a]}, u[a], 1);
  HostTensor at(DType::kI64, u);
  std::int64_t inner = 1;
  for (std::size_t k = a + 1; k < u.size(); ++k) inner *= u[k];
  for (std::int64_t i = 0; i < at.size(); ++i) at.set_int(i, order.get_int(i / inner % u[a]));
  const DType t = d.dtype(x);
  return d.emit(row.name, {x, d.chance(0.5) ? d.constant(at) : d.input(at), d.shaped(t, u)},
                reduction(d, t, {attr("axis", axis)}));
}

bool one_hot(Draw& d, const OpRow& row) {
  const std::int64_t depth = d.between(1, 6);
  const std::string x = positions(d, d.shape(Ranks{0, 3}), depth + 1);
  if (elements(d.shape(x)) * depth > d.max_elements()) return false;
  const std::string values = d.fresh(d.type(row.types), {2});
  return d.emit(row.name, {x, d.scalar(DType::kI64, static_cast<double>(depth)), values},
                {attr("axis", d.axis(d.rank(x) + 1))});
}

bool reverse(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {2, 4});
  const bool swap = d.chance(0.5);
  const Shape s = d.shape(x);
  const std::int64_t batch = s[swap ? 0 : 1], time = s[swap ? 1 : 0];
  if (time == 0) return false;
  const std::string lengths = d.fresh(DType::kI64, {batch}, within(1, static_cast<double>(time)));
  return d.emit(row.name, {x, lengths},
                {attr("batch_axis", swap ? 0 : 1), attr("time_axis", swap ? 1 : 0)});
}

std::string known(Draw& d, const Shape& shape) {
  const HostTensor mask = d.tensor(DType::kBool, shape, kFree);
  return d.waits ? d.input(mask) : d.constant(mask);
}

bool compress(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4});
  const std::int64_t axis = d.axis(d.rank(x));
  if (d.chance(0.3)) {
    return d.emit(row.name, {x, known(d, {elements(d.shape(x))})});
  }
  return d.emit(row.name, {x, known(d, {d.shape(x)[place(axis, d.rank(x))]})},
                {attr("axis", axis)});
}

bool cache(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {3, 4});
  Shape s = d.shape(x);
  if (elements(s) == 0) return false;
  const std::size_t axis = s.size() - 2;
  const std::int64_t n = s[axis], batch = s[0];
  s[axis] = d.between(1, n);
  const std::string starts =
      d.fresh(DType::kI64, {batch}, within(0, static_cast<double>(n - s[axis])));
  return d.emit(
      row.name, {x, d.shaped(d.dtype(x), s), starts},
      {attr("axis", -2), attr("mode", std::string(d.chance(0.5) ? "linear" : "circular"))});
}

bool nonzero(Draw& d, const OpRow& row) {
  return d.emit(row.name, {d.any(d.type(row.types), {1, 4})});
}

bool unique(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 3});
  if (elements(d.shape(x)) == 0) return false;
  Attributes attributes = {attr("sorted", d.chance(0.5) ? 1 : 0)};
  if (d.chance(0.4)) attributes.push_back(attr("axis", d.axis(d.rank(x))));
  return d.emit(row.name, {x}, attributes, 4);
}

bool suppress(Draw& d, const OpRow& row) {
  const std::int64_t n = d.between(1, 9);
  HostTensor boxes(DType::kF32, {1, n, 4});
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t k = 0; k < 2; ++k) {
      const double low = d.rng.uniform();
      boxes.set_float(i * 4 + k, low);
      boxes.set_float(i * 4 + k + 2, low + 0.1 + d.rng.uniform());
    }
  }
  const std::string scores = d.fresh(DType::kF32, {1, d.between(1, 3), n}, within(0, 1));
  return d.emit(row.name, {d.input(boxes), scores, d.integers({d.between(1, 4)}),
                           d.constant(d.tensor(DType::kF32, {1}, within(0.3, 0.7)))});
}

bool ngrams(Draw& d, const OpRow& row) {
  const std::string x =
      d.fresh(d.type(row.types), {d.between(1, 3), d.between(1, 12)}, within(0, 5));
  const Shape counts = {0, 3}, pool = {1, 2, 4, 1, 2, 3, 4}, columns = {0, 1, 2, 4, 3};
  return d.emit(
      row.name, {x},
      {attr("mode", std::string("TF")), attr("min_gram_length", 1), attr("max_gram_length", 2),
       attr("max_skip_count", d.between(0, 2)), attr("ngram_counts", counts),
       attr("ngram_indexes", columns), attr("pool_int64s", pool)});
}

}  // namespace

std::vector<OpRow> indexing_rows() {
  return {
      {"Gather", kAll, gather},
      {"GatherElements", kAll, gather_elements, 11},
      {"GatherND", kAll, gather_nd, 11},
      {"ScatterElements", kAll, scatter_elements, 11},
      {"ScatterND", kAll, scatter_nd, 11},
      {"OneHot", kNumbers, one_hot, 11},
      {"ReverseSequence", kAll, reverse, 10},
      {"Compress", kAll, compress, 9},
      {"TensorScatter", kFloats, cache, 24},
      {"NonZero", kAll, nonzero, 9, kFree, {}, "", true},
      {"Unique", kNumbers, unique, 11, kFree, {}, "", true},
      {"NonMaxSuppression", kF32Only, suppress, 10, kFree, {}, "", true},
      {"TfIdfVectorizer", kIndex, ngrams, 9},
  };
}

}  // namespace tessera::fuzz
