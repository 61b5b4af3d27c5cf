// Operators that run as functions of the host: sequential by nature, or with outputs whose size is
// data. Those that look at images and boxes are in detection.cc.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tessera/frontend/graph/ops/data_movement.h"
#include "tessera/frontend/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> detection_ops();
std::vector<OpDef> ngram_ops();

namespace {

using Tensors = std::vector<HostTensor>;
using Types = std::vector<TensorType>;
using Inputs = std::vector<const HostTensor*>;

// An integer that orders as the element does; equal elements (-0 and 0 among them) have equal
// keys, NaN is above everything.
std::int64_t order_key(const HostTensor& x, std::int64_t i) {
  if (x.dtype() == DType::kU64) return x.get_int(i) ^ INT64_MIN;
  if (!is_float(x.dtype())) return x.get_int(i);
  const double v = x.get_float(i);
  if (std::isnan(v)) return INT64_MAX;
  const std::int64_t bits = std::bit_cast<std::int64_t>(v + 0.0);
  return bits < 0 ? bits ^ INT64_MAX : bits;
}

Result<std::size_t> read_axis(const NodeView& node) {
  const std::int64_t axis = node.attrs.integer("axis");
  if (axis < 0 || axis >= static_cast<std::int64_t>(node.shape(0).size()))
    return bad_operand("axis {} of a tensor of rank {}", axis, node.shape(0).size());
  return static_cast<std::size_t>(axis);
}

// topk {axis, k, largest}: values and i64 indices, best first, ties by index.
Result<Types> infer_topk(const NodeView& node) {
  TESSERA_TRY(const std::size_t axis, read_axis(node));
  Shape shape = node.shape(0);
  const std::int64_t k = node.attrs.integer("k");
  if (k < 0 || k > shape[axis]) return bad_operand("the best {} of {}", k, shape[axis]);
  shape[axis] = k;
  return Types{{node.dtype(0), shape}, {DType::kI64, shape}};
}

Result<Tensors> evaluate_topk(const NodeView& node, const Inputs& in) {
  TESSERA_TRY(const Types types, infer_topk(node));
  const HostTensor& x = *in[0];
  const std::size_t axis = static_cast<std::size_t>(node.attrs.integer("axis"));
  const std::int64_t k = node.attrs.integer("k"), n = x.shape()[axis];
  const bool largest = node.attrs.integer("largest", 1) != 0;
  const std::int64_t inner = span_size(x.shape(), axis + 1, x.shape().size()),
                     outer = span_size(x.shape(), 0, axis);
  HostTensor values(x.dtype(), types[0].shape), indices(DType::kI64, types[1].shape);
  const std::size_t width = static_cast<std::size_t>(size_bytes(x.dtype()));
  std::vector<std::pair<std::int64_t, std::int64_t>> order(static_cast<std::size_t>(n));
  for (std::int64_t line = 0; line < outer * inner && k > 0; ++line) {
    const std::int64_t o = line / inner, j = line % inner;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t key = order_key(x, (o * n + i) * inner + j);
      order[static_cast<std::size_t>(i)] = {largest ? ~key : key, i};
    }
    std::partial_sort(order.begin(), order.begin() + k, order.end());
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t to = (o * k + i) * inner + j,
                         from = order[static_cast<std::size_t>(i)].second;
      std::memcpy(values.as<std::byte>() + static_cast<std::size_t>(to) * width,
                  x.as<std::byte>() + static_cast<std::size_t>((o * n + from) * inner + j) * width,
                  width);
      indices.as<std::int64_t>()[to] = from;
    }
  }
  return Tensors{values, indices};
}

enum class Combine { kSet, kAdd, kMul, kMin, kMax };

Result<Combine> read_combine(const NodeView& node) {
  const std::string& word = node.attrs.word("reduction");
  if (word == "none") return Combine::kSet;
  if (word == "add") return Combine::kAdd;
  if (word == "mul") return Combine::kMul;
  if (word == "min") return Combine::kMin;
  if (word == "max") return Combine::kMax;
  return bad_operand("reduction '{}' is not none, add, mul, min or max", word);
}

void combine_into(HostTensor& out, std::int64_t to, const HostTensor& updates, std::int64_t from,
                  Combine how) {
  const bool is_better = how == Combine::kMin ? order_key(updates, from) < order_key(out, to)
                                              : order_key(updates, from) > order_key(out, to);
  if (how == Combine::kAdd || how == Combine::kMul) {
    const bool sum = how == Combine::kAdd;
    if (is_float(out.dtype())) {
      const double a = out.get_float(to), b = updates.get_float(from);
      out.set_float(to, sum ? a + b : a * b);
    } else {
      const auto a = static_cast<std::uint64_t>(out.get_int(to)),
                 b = static_cast<std::uint64_t>(updates.get_int(from));
      out.set_int(to, static_cast<std::int64_t>(sum ? a + b : a * b));
    }
  } else if (how == Combine::kSet || is_better) {
    const std::size_t width = static_cast<std::size_t>(size_bytes(out.dtype()));
    std::memcpy(out.as<std::byte>() + static_cast<std::size_t>(to) * width,
                updates.as<std::byte>() + static_cast<std::size_t>(from) * width, width);
  }
}

// scatter_elements {axis, reduction} x, indices, updates.
Result<Types> infer_scatter_elements(const NodeView& node) {
  TESSERA_TRY(const std::size_t axis, read_axis(node));
  TESSERA_DO([&]() -> Result<void> {
    const auto how = read_combine(node);
    return how.ok() ? Result<void>() : Result<void>(how.error());
  }());
  const Shape &x = node.shape(0), &indices = node.shape(1);
  bool fits =
      indices.size() == x.size() && node.shape(2) == indices && node.dtype(2) == node.dtype(0);
  for (std::size_t d = 0; fits && d < x.size(); ++d) fits = d == axis || indices[d] <= x[d];
  if (!fits) {
    return bad_operand("cannot scatter {} by {} into {}", to_text(*node.types[2]), to_text(indices),
                       to_text(*node.types[0]));
  }
  TESSERA_DO(check_indices(node, 1, x[axis]));
  return single_type(node.dtype(0), x);
}

Result<Tensors> evaluate_scatter_elements(const NodeView& node, const Inputs& in) {
  TESSERA_DO(
      check_indices(node, 1, node.shape(0)[static_cast<std::size_t>(node.attrs.integer("axis"))]));
  const std::size_t axis = static_cast<std::size_t>(node.attrs.integer("axis"));
  TESSERA_TRY(const Combine how, read_combine(node));
  HostTensor out = in[0]->clone();
  const Shape strides = row_major_strides(out.shape()),
              index_strides = row_major_strides(in[1]->shape());
  for (std::int64_t i = 0; i < in[1]->size(); ++i) {
    std::int64_t to = safe_index(in[1]->get_int(i), out.shape()[axis]) * strides[axis];
    for (std::size_t d = 0; d < strides.size(); ++d) {
      if (d != axis) to += i / index_strides[d] % in[1]->shape()[d] * strides[d];
    }
    combine_into(out, to, *in[2], i, how);
  }
  return Tensors{out};
}

// scatter_nd {reduction} x, indices[.., depth], updates.
Result<Types> infer_scatter_nd(const NodeView& node) {
  TESSERA_DO([&]() -> Result<void> {
    const auto how = read_combine(node);
    return how.ok() ? Result<void>() : Result<void>(how.error());
  }());
  const Shape &x = node.shape(0), &indices = node.shape(1);
  if (node.dtype(1) != DType::kI64) return bad_operand("indices must be i64");
  if (indices.empty() || indices.back() < 0 || indices.back() > static_cast<std::int64_t>(x.size()))
    return bad_operand("index tuples {} for {}", to_text(indices), to_text(x));
  Shape expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), x.begin() + indices.back(), x.end());
  if (node.shape(2) != expected || node.dtype(2) != node.dtype(0)) {
    return bad_operand("updates are {}, {} of {} are needed", to_text(*node.types[2]),
                       to_text(expected), to_text(node.dtype(0)));
  }
  return single_type(node.dtype(0), x);
}

Result<Tensors> evaluate_scatter_nd(const NodeView& node, const Inputs& in) {
  TESSERA_TRY(const Combine how, read_combine(node));
  HostTensor out = in[0]->clone();
  const Shape& x = out.shape();
  const Shape strides = row_major_strides(x);
  const std::size_t depth = static_cast<std::size_t>(in[1]->shape().back());
  const std::int64_t run = span_size(x, depth, x.size());
  const std::int64_t tuples = run == 0 ? 0 : in[2]->size() / run;
  for (std::int64_t t = 0; t < tuples; ++t) {
    std::int64_t to = 0;
    for (std::size_t k = 0; k < depth; ++k) {
      const std::int64_t raw =
          in[1]->get_int(t * static_cast<std::int64_t>(depth) + static_cast<std::int64_t>(k));
      if (raw < -x[k] || raw >= x[k])
        return bad_operand("index {} is outside a dimension of size {}", raw, x[k]);
      to += safe_index(raw, x[k]) * strides[k];
    }
    for (std::int64_t j = 0; j < run; ++j) combine_into(out, to + j, *in[2], t * run + j, how);
  }
  return Tensors{out};
}

// nonzero x -> i64[rank, count], row-major order.
Result<Types> infer_nonzero(const NodeView&) {
  return make_error(ErrorCode::kDataDependent, "the number of non-zero elements is data");
}

Result<Tensors> evaluate_nonzero(const NodeView&, const Inputs& in) {
  const HostTensor& x = *in[0];
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    if (is_float(x.dtype()) ? x.get_float(i) != 0 : x.get_int(i) != 0) found.push_back(i);
  }
  const Shape strides = row_major_strides(x.shape());
  // A scalar counts as one axis of one element.
  const std::size_t rank = std::max<std::size_t>(1, x.shape().size());
  HostTensor out(DType::kI64,
                 {static_cast<std::int64_t>(rank), static_cast<std::int64_t>(found.size())});
  for (std::size_t d = 0; d < rank; ++d) {
    for (std::size_t k = 0; k < found.size(); ++k) {
      out.as<std::int64_t>()[d * found.size() + k] =
          x.shape().empty() ? 0 : found[k] / strides[d] % x.shape()[d];
    }
  }
  return Tensors{out};
}

// unique {sorted, axis?} x -> values, first index, inverse, counts; without axis x is flattened.
Result<Types> infer_unique(const NodeView& node) {
  if (node.attrs.has("axis")) {
    const auto axis = read_axis(node);
    if (!axis.ok()) return axis.error();
  }
  return make_error(ErrorCode::kDataDependent, "the number of unique elements is data");
}

struct Groups {
  std::vector<std::int64_t> first, inverse, counts;
};

// Groups of equal slices along the middle of [outer, n, inner].
Groups group_slices(const HostTensor& x, std::int64_t outer, std::int64_t n, std::int64_t inner,
                    bool sorted) {
  const auto compare = [&](std::int64_t a, std::int64_t b) {
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t j = 0; j < inner; ++j) {
        const std::int64_t ka = order_key(x, (o * n + a) * inner + j),
                           kb = order_key(x, (o * n + b) * inner + j);
        if (ka != kb) return ka < kb ? -1 : 1;
      }
    }
    return 0;
  };
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return compare(a, b) < 0; });
  Groups g;
  g.inverse.resize(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (k == 0 || compare(order[k - 1], order[k]) != 0) {
      g.first.push_back(order[k]);
      g.counts.push_back(0);
    }
    ++g.counts.back();
    g.inverse[static_cast<std::size_t>(order[k])] = static_cast<std::int64_t>(g.first.size()) - 1;
  }
  if (sorted) return g;
  std::vector<std::size_t> by_first(g.first.size()), place(g.first.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::sort(by_first.begin(), by_first.end(),
            [&](std::size_t a, std::size_t b) { return g.first[a] < g.first[b]; });
  Groups seen;
  for (std::size_t k = 0; k < by_first.size(); ++k) {
    place[by_first[k]] = k;
    seen.first.push_back(g.first[by_first[k]]);
    seen.counts.push_back(g.counts[by_first[k]]);
  }
  for (const std::int64_t i : g.inverse)
    seen.inverse.push_back(static_cast<std::int64_t>(place[static_cast<std::size_t>(i)]));
  return seen;
}

HostTensor to_tensor(const std::vector<std::int64_t>& values) {
  HostTensor t(DType::kI64, {static_cast<std::int64_t>(values.size())});
  if (!values.empty()) std::memcpy(t.data(), values.data(), t.bytes());
  return t;
}

Result<Tensors> evaluate_unique(const NodeView& node, const Inputs& in) {
  const bool flat = !node.attrs.has("axis"), sorted = node.attrs.integer("sorted") != 0;
  HostTensor x = *in[0];
  if (flat) {
    x = HostTensor(x.dtype(), {in[0]->size()});
    std::memcpy(x.data(), in[0]->data(), x.bytes());
  }
  const std::size_t axis = flat ? 0 : static_cast<std::size_t>(node.attrs.integer("axis"));
  const Groups g = group_slices(x, span_size(x.shape(), 0, axis), x.shape()[axis],
                                span_size(x.shape(), axis + 1, x.shape().size()), sorted);
  return Tensors{take(x, axis, g.first), to_tensor(g.first), to_tensor(g.inverse),
                 to_tensor(g.counts)};
}

}  // namespace

std::vector<OpDef> host_ops() {
  std::vector<OpDef> ops = {
      {"topk", Fusion::kHost, infer_topk, nullptr, evaluate_topk},
      {"scatter_elements", Fusion::kHost, infer_scatter_elements, nullptr,
       evaluate_scatter_elements},
      {"scatter_nd", Fusion::kHost, infer_scatter_nd, nullptr, evaluate_scatter_nd},
      {"nonzero", Fusion::kHost, infer_nonzero, nullptr, evaluate_nonzero},
      {"unique", Fusion::kHost, infer_unique, nullptr, evaluate_unique},
  };
  for (const auto family : {detection_ops, ngram_ops}) {
    for (const OpDef& op : family()) ops.push_back(op);
  }
  return ops;
}

}  // namespace tessera::graph
