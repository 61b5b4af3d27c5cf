// gather, gather_elements and gather_nd: reads at positions that a tensor names. Operators whose
// positions follow from the axes are in masking.cc.
#include <algorithm>
#include <cstring>

#include "tessera/frontend/graph/ops/broadcast.h"
#include "tessera/frontend/graph/ops/data_movement.h"
#include "tessera/frontend/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> masking_ops();

namespace {

using Buffers = std::vector<ir::Buffer>;
using Tensors = std::vector<HostTensor>;
using Types = std::vector<TensorType>;

Result<std::size_t> read_axis(const NodeView& node) {
  const std::int64_t axis = node.attrs.integer("axis");
  if (axis < 0 || axis >= static_cast<std::int64_t>(node.shape(0).size()))
    return bad_operand("axis {} of a tensor of rank {}", axis, node.shape(0).size());
  return static_cast<std::size_t>(axis);
}

std::size_t axis_of(const NodeView& node) {
  return static_cast<std::size_t>(node.attrs.integer("axis"));
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from, std::size_t first, std::size_t last) {
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(first),
            from.begin() + static_cast<std::ptrdiff_t>(last));
}

Shape gathered(const NodeView& node) {
  const Shape& x = node.shape(0);
  const std::size_t axis = axis_of(node);
  Shape shape;
  append(shape, x, 0, axis);
  append(shape, node.shape(1), 0, node.shape(1).size());
  append(shape, x, axis + 1, x.size());
  return shape;
}

Result<Types> infer_gather(const NodeView& node) {
  TESSERA_TRY(const std::size_t axis, read_axis(node));
  TESSERA_DO(check_indices(node, 1, node.shape(0)[axis]));
  return single_type(node.dtype(0), gathered(node));
}

Result<Buffers> define_gather(te::DagBuilder& b, const std::string& name, const NodeView& node,
                              const Buffers& in) {
  const std::size_t axis = axis_of(node), rank = node.shape(1).size();
  return Buffers{b.compute(name, axes_over(gathered(node)), [&](const te::Indices& i) {
    te::Indices where, from;
    append(where, i, axis, axis + rank);
    append(from, i, 0, axis);
    from.push_back(safe_index(node, 1, te::at(in[1], where), node.shape(0)[axis]));
    append(from, i, axis + rank, i.size());
    return te::at(in[0], from);
  })};
}

Result<Tensors> evaluate_gather(const NodeView& node, const std::vector<const HostTensor*>& in) {
  const std::size_t axis = axis_of(node);
  std::vector<std::int64_t> picks;
  for (std::int64_t i = 0; i < in[1]->size(); ++i)
    picks.push_back(safe_index(in[1]->get_int(i), in[0]->shape()[axis]));
  const HostTensor rows = take(*in[0], axis, picks);
  HostTensor out(in[0]->dtype(), gathered(node));
  std::memcpy(out.data(), rows.data(), out.bytes());
  return Tensors{out};
}

Result<Types> infer_gather_elements(const NodeView& node) {
  TESSERA_TRY(const std::size_t axis, read_axis(node));
  const Shape &x = node.shape(0), &indices = node.shape(1);
  if (indices.size() != x.size())
    return bad_operand("indices of rank {} into rank {}", indices.size(), x.size());
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (d != axis && indices[d] > x[d])
      return bad_operand("indices {} exceed {}", to_text(indices), to_text(x));
  }
  TESSERA_DO(check_indices(node, 1, x[axis]));
  return single_type(node.dtype(0), indices);
}

Result<Buffers> define_gather_elements(te::DagBuilder& b, const std::string& name,
                                       const NodeView& node, const Buffers& in) {
  const std::size_t axis = axis_of(node);
  return Buffers{b.compute(name, axes_over(node.shape(1)), [&](const te::Indices& i) {
    te::Indices from = i;
    from[axis] = safe_index(node, 1, te::at(in[1], i), node.shape(0)[axis]);
    return te::at(in[0], from);
  })};
}

// Advances a position of a shape, last axis fastest; false after the last one.
bool advance(std::vector<std::int64_t>& at, const Shape& shape) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (++at[d] < shape[d]) return true;
    at[d] = 0;
  }
  return false;
}

Result<Tensors> evaluate_gather_elements(const NodeView& node,
                                         const std::vector<const HostTensor*>& in) {
  const std::size_t axis = axis_of(node);
  const Shape strides = row_major_strides(in[0]->shape());
  HostTensor out(in[0]->dtype(), in[1]->shape());
  const std::size_t width = static_cast<std::size_t>(size_bytes(out.dtype()));
  std::vector<std::int64_t> at(out.shape().size(), 0);
  std::int64_t i = 0;
  do {
    std::int64_t from = safe_index(in[1]->get_int(i), in[0]->shape()[axis]) * strides[axis];
    for (std::size_t d = 0; d < at.size(); ++d) from += d == axis ? 0 : at[d] * strides[d];
    std::memcpy(out.as<std::byte>() + static_cast<std::size_t>(i) * width,
                in[0]->as<std::byte>() + static_cast<std::size_t>(from) * width, width);
    ++i;
  } while (advance(at, out.shape()));
  return Tensors{out};
}

struct NdShape {
  std::size_t batch;  // leading axes that both have
  std::size_t depth;  // axes of x that one index tuple names
  Shape out;
};

NdShape nd_shape(const NodeView& node) {
  const Shape &x = node.shape(0), &indices = node.shape(1);
  NdShape s{static_cast<std::size_t>(node.attrs.integer("batch_dims", 0)),
            static_cast<std::size_t>(indices.back()),
            {}};
  append(s.out, indices, 0, indices.size() - 1);
  append(s.out, x, s.batch + s.depth, x.size());
  return s;
}

// Column `depth` of constant index tuples must fit dimension `n`.
Result<void> check_tuples(const NodeView& node, std::size_t batch, std::size_t depth) {
  const Shape& x = node.shape(0);
  const HostTensor* values = node.constants[1];
  for (std::size_t k = 0; k < depth; ++k) {
    if (x[batch + k] == 0 && elements(node.shape(1)) != 0)
      return bad_operand("indices into a dimension of size 0");
  }
  for (std::int64_t i = 0; values && i < values->size(); ++i) {
    const std::int64_t n = x[batch + static_cast<std::size_t>(i) % depth];
    const std::int64_t v = values->get_int(i);
    if (v < -n || v >= n) return bad_operand("index {} is outside a dimension of size {}", v, n);
  }
  return {};
}

Result<Types> infer_gather_nd(const NodeView& node) {
  const Shape &x = node.shape(0), &indices = node.shape(1);
  const std::int64_t batch = node.attrs.integer("batch_dims", 0);
  if (node.dtype(1) != DType::kI64 && node.dtype(1) != DType::kI32)
    return bad_operand("indices are {}, not i32 or i64", to_text(node.dtype(1)));
  if (x.empty() || indices.empty()) return bad_operand("gather_nd of a scalar");
  const std::int64_t shared = static_cast<std::int64_t>(std::min(x.size(), indices.size()));
  if (batch < 0 || batch >= shared)
    return bad_operand("{} batch axes of {} and {}", batch, to_text(x), to_text(indices));
  const std::size_t nb = static_cast<std::size_t>(batch);
  if (!std::equal(x.begin(), x.begin() + batch, indices.begin()))
    return bad_operand("batch axes of {} and {} differ", to_text(x), to_text(indices));
  if (indices.back() < 1 || indices.back() > static_cast<std::int64_t>(x.size() - nb))
    return bad_operand("index tuples of {} for {}", indices.back(), to_text(x));
  TESSERA_DO(check_tuples(node, nb, static_cast<std::size_t>(indices.back())));
  return single_type(node.dtype(0), nd_shape(node).out);
}

Result<Buffers> define_gather_nd(te::DagBuilder& b, const std::string& name, const NodeView& node,
                                 const Buffers& in) {
  const NdShape s = nd_shape(node);
  const std::size_t lead = node.shape(1).size() - 1;
  return Buffers{b.compute(name, axes_over(s.out), [&](const te::Indices& i) {
    te::Indices from;
    append(from, i, 0, s.batch);
    for (std::size_t k = 0; k < s.depth; ++k) {
      te::Indices where;
      append(where, i, 0, lead);
      where.push_back(ir::int_imm(static_cast<std::int64_t>(k)));
      from.push_back(safe_index(node, 1, te::at(in[1], where), node.shape(0)[s.batch + k]));
    }
    append(from, i, lead, i.size());
    return te::at(in[0], from);
  })};
}

Result<Tensors> evaluate_gather_nd(const NodeView& node, const std::vector<const HostTensor*>& in) {
  const NdShape s = nd_shape(node);
  const Shape& x = node.shape(0);
  const Shape strides = row_major_strides(x);
  HostTensor out(in[0]->dtype(), s.out);
  const std::int64_t run = span_size(x, s.batch + s.depth, x.size());
  const std::int64_t tuples = in[1]->size() / static_cast<std::int64_t>(s.depth);
  const std::int64_t batches = span_size(x, 0, s.batch);
  const std::size_t width = static_cast<std::size_t>(size_bytes(out.dtype()));
  const std::int64_t batch_stride = span_size(x, s.batch, x.size());
  for (std::int64_t t = 0; t < tuples; ++t) {
    std::int64_t from = t / (tuples / batches) * batch_stride;
    for (std::size_t k = 0; k < s.depth; ++k) {
      const std::int64_t raw =
          in[1]->get_int(t * static_cast<std::int64_t>(s.depth) + static_cast<std::int64_t>(k));
      from += safe_index(raw, x[s.batch + k]) * strides[s.batch + k];
    }
    std::memcpy(out.as<std::byte>() + static_cast<std::size_t>(t * run) * width,
                in[0]->as<std::byte>() + static_cast<std::size_t>(from) * width,
                static_cast<std::size_t>(run) * width);
  }
  return Tensors{out};
}

}  // namespace

std::vector<OpDef> indexing_ops() {
  std::vector<OpDef> ops = {
      with(fact::kIndexes,
           {"gather", Fusion::kInjective, infer_gather, define_gather, evaluate_gather}),
      with(fact::kIndexes, {"gather_elements", Fusion::kInjective, infer_gather_elements,
                            define_gather_elements, evaluate_gather_elements}),
      {"gather_nd", Fusion::kInjective, infer_gather_nd, define_gather_nd, evaluate_gather_nd},
  };
  for (const OpDef& op : masking_ops()) ops.push_back(op);
  return ops;
}

}  // namespace tessera::graph
