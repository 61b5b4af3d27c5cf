// Operators that put the elements of their inputs at other places: reshape, transpose, expand,
// slice, concat; pad is in pad.cc.
#include <algorithm>
#include <numeric>

#include "tessera/frontend/graph/ops/broadcast.h"
#include "tessera/frontend/graph/ops/data_movement.h"
#include "tessera/frontend/graph/ops/ops.h"
#include "tessera/lang/te/ops/window.h"

namespace tessera::graph {

OpDef pad_op();

namespace {

using Buffers = std::vector<ir::Buffer>;
using Tensors = std::vector<HostTensor>;
using Types = std::vector<TensorType>;

Result<Types> infer_reshape(const NodeView& node) {
  const Shape& shape = node.attrs.integers("shape");
  TESSERA_TRY(const std::int64_t total, checked_elements(shape, node.dtype(0)));
  if (total != elements(node.shape(0))) {
    return bad_operand("cannot reshape {} to {}", to_text(node.shape(0)), to_text(shape));
  }
  return single_type(node.dtype(0), shape);
}

Result<Buffers> define_reshape(te::DagBuilder& b, const std::string& name, const NodeView& node,
                               const Buffers& in) {
  const Shape& shape = node.attrs.integers("shape");
  return Buffers{b.compute(name, axes_over(shape), [&](const te::Indices& i) {
    return te::at(in[0], reshape_indices(node.shape(0), shape, i));
  })};
}

Result<Tensors> evaluate_reshape(const NodeView& node, const std::vector<const HostTensor*>& in) {
  return Tensors{in[0]->reshaped(node.attrs.integers("shape"))};
}

Result<Types> infer_transpose(const NodeView& node) {
  const Shape& x = node.shape(0);
  const std::vector<std::int64_t>& perm = node.attrs.integers("perm");
  std::vector<bool> seen(x.size(), false);
  Shape shape;
  for (const std::int64_t p : perm) {
    if (p < 0 || p >= static_cast<std::int64_t>(x.size()) || seen[static_cast<std::size_t>(p)])
      return bad_operand("perm is not a permutation of the {} axes", x.size());
    seen[static_cast<std::size_t>(p)] = true;
    shape.push_back(x[static_cast<std::size_t>(p)]);
  }
  if (perm.size() != x.size())
    return bad_operand("perm names {} of {} axes", perm.size(), x.size());
  return single_type(node.dtype(0), std::move(shape));
}

Shape transposed(const Shape& x, const std::vector<std::int64_t>& perm) {
  Shape shape;
  for (const std::int64_t p : perm) shape.push_back(x[static_cast<std::size_t>(p)]);
  return shape;
}

Result<Buffers> define_transpose(te::DagBuilder& b, const std::string& name, const NodeView& node,
                                 const Buffers& in) {
  const std::vector<std::int64_t>& perm = node.attrs.integers("perm");
  const te::NamedAxes axes = axes_over(transposed(node.shape(0), perm));
  return Buffers{b.compute(name, axes, [&](const te::Indices& i) {
    te::Indices from(i.size());
    for (std::size_t d = 0; d < i.size(); ++d) from[static_cast<std::size_t>(perm[d])] = i[d];
    return te::at(in[0], from);
  })};
}

Result<Tensors> evaluate_transpose(const NodeView& node, const std::vector<const HostTensor*>& in) {
  const std::vector<std::int64_t>& perm = node.attrs.integers("perm");
  const Shape strides = row_major_strides(in[0]->shape());
  HostTensor out(in[0]->dtype(), transposed(in[0]->shape(), perm));
  const Shape out_strides = row_major_strides(out.shape());
  std::vector<StridedDim> dims;
  for (std::size_t d = 0; d < perm.size(); ++d)
    dims.push_back({out.shape()[d], strides[static_cast<std::size_t>(perm[d])], out_strides[d]});
  copy_strided(in[0]->data(), out.data(), dims, size_bytes(out.dtype()));
  return Tensors{out};
}

Result<Types> infer_expand(const NodeView& node) {
  const Shape& shape = node.attrs.integers("shape");
  if (!broadcasts_to(node.shape(0), shape)) {
    return bad_operand("{} does not broadcast to {}", to_text(node.shape(0)), to_text(shape));
  }
  return single_type(node.dtype(0), shape);
}

Result<Buffers> define_expand(te::DagBuilder& b, const std::string& name, const NodeView& node,
                              const Buffers& in) {
  const Shape& shape = node.attrs.integers("shape");
  const Shape& x = node.shape(0);
  return Buffers{b.compute(name, axes_over(shape), [&](const te::Indices& i) {
    te::Indices from;
    const std::size_t added = shape.size() - x.size();
    for (std::size_t d = 0; d < x.size(); ++d)
      from.push_back(x[d] == 1 ? ir::int_imm(0) : i[added + d]);
    return te::at(in[0], from);
  })};
}

Result<Tensors> evaluate_expand(const NodeView& node, const std::vector<const HostTensor*>& in) {
  HostTensor out(in[0]->dtype(), node.attrs.integers("shape"));
  const Shape& x = in[0]->shape();
  const Shape strides = row_major_strides(x), out_strides = row_major_strides(out.shape());
  const std::size_t added = out.shape().size() - x.size();
  std::vector<StridedDim> dims;
  for (std::size_t d = 0; d < out.shape().size(); ++d) {
    const bool repeated = d < added || x[d - added] == 1;
    dims.push_back({out.shape()[d], repeated ? 0 : strides[d - added], out_strides[d]});
  }
  copy_strided(in[0]->data(), out.data(), dims, size_bytes(out.dtype()));
  return Tensors{out};
}

Result<Types> infer_slice(const NodeView& node) {
  const Shape& x = node.shape(0);
  const std::vector<std::int64_t>& starts = node.attrs.integers("starts");
  const std::vector<std::int64_t>& steps = node.attrs.integers("steps");
  const Shape& sizes = node.attrs.integers("sizes");
  if (starts.size() != x.size() || steps.size() != x.size() || sizes.size() != x.size())
    return bad_operand("slice of rank {} for a tensor of rank {}", sizes.size(), x.size());
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (sizes[d] < 0) return bad_operand("slice of size {}", sizes[d]);
    if (sizes[d] == 0) continue;
    const auto last = static_cast<__int128>(starts[d]) +
                      static_cast<__int128>(sizes[d] - 1) * static_cast<__int128>(steps[d]);
    if (starts[d] < 0 || starts[d] >= x[d] || last < 0 || last >= x[d]) {
      return bad_operand("slice {}+{}*{} leaves axis {} of size {}", starts[d], sizes[d], steps[d],
                         d, x[d]);
    }
  }
  return single_type(node.dtype(0), sizes);
}

Result<Buffers> define_slice(te::DagBuilder& b, const std::string& name, const NodeView& node,
                             const Buffers& in) {
  const std::vector<std::int64_t>& starts = node.attrs.integers("starts");
  const std::vector<std::int64_t>& steps = node.attrs.integers("steps");
  const te::NamedAxes axes = axes_over(node.attrs.integers("sizes"));
  return Buffers{b.compute(name, axes, [&](const te::Indices& i) {
    te::Indices from;
    for (std::size_t d = 0; d < i.size(); ++d)
      from.push_back(te::shifted(te::scaled(i[d], axes[d].second == 1 ? 1 : steps[d]), starts[d]));
    return te::at(in[0], from);
  })};
}

Result<Tensors> evaluate_slice(const NodeView& node, const std::vector<const HostTensor*>& in) {
  const std::vector<std::int64_t>& starts = node.attrs.integers("starts");
  const std::vector<std::int64_t>& steps = node.attrs.integers("steps");
  HostTensor out(in[0]->dtype(), node.attrs.integers("sizes"));
  if (out.size() == 0) return Tensors{out};
  const Shape strides = row_major_strides(in[0]->shape()),
              out_strides = row_major_strides(out.shape());
  std::int64_t first = 0;
  std::vector<StridedDim> dims;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    first += starts[d] * strides[d];
    const std::int64_t step = out.shape()[d] == 1 ? 1 : steps[d];
    dims.push_back({out.shape()[d], step * strides[d], out_strides[d]});
  }
  copy_strided(in[0]->as<std::byte>() + first * size_bytes(out.dtype()), out.data(), dims,
               size_bytes(out.dtype()));
  return Tensors{out};
}

Result<Types> infer_concat(const NodeView& node) {
  if (node.size() == 0) return bad_operand("concat of nothing");
  Shape shape = node.shape(0);
  const std::int64_t axis = node.attrs.integer("axis");
  if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size()))
    return bad_operand("concat along axis {} of rank {}", axis, shape.size());
  const std::size_t a = static_cast<std::size_t>(axis);
  for (std::size_t k = 1; k < node.size(); ++k) {
    Shape other = node.shape(k);
    const bool fits = other.size() == shape.size() && node.dtype(k) == node.dtype(0);
    const std::int64_t added = fits ? other[a] : 0;
    if (fits) other[a] = shape[a];
    if (!fits || other != shape) {
      return bad_operand("concat along axis {}: {} and {} do not fit", axis,
                         to_text(*node.types[0]), to_text(*node.types[k]));
    }
    if (added > INT64_MAX - shape[a]) return bad_operand("concat: too large");
    shape[a] += added;
  }
  return single_type(node.dtype(0), std::move(shape));
}

// Part k covers [ends[k-1], ends[k]) of the axis; a balanced tree, so that many parts cost few
// comparisons.
ir::Expr choose_part(const Buffers& parts, const std::vector<std::int64_t>& ends, std::size_t first,
                     std::size_t last, const te::Indices& i, std::size_t axis) {
  if (last - first == 1) {
    te::Indices from = i;
    from[axis] = te::shifted(i[axis], first == 0 ? 0 : -ends[first - 1]);
    return te::at(parts[first], from);
  }
  const std::size_t middle = (first + last) / 2;
  return ir::select(ir::lt(i[axis], ir::int_imm(ends[middle - 1])),
                    choose_part(parts, ends, first, middle, i, axis),
                    choose_part(parts, ends, middle, last, i, axis));
}

Result<Buffers> define_concat(te::DagBuilder& b, const std::string& name, const NodeView& node,
                              const Buffers& in) {
  const std::size_t axis = static_cast<std::size_t>(node.attrs.integer("axis"));
  Buffers parts;
  std::vector<std::int64_t> ends;
  std::int64_t total = 0;
  for (const ir::Buffer& x : in) {
    if (x->shape[axis] == 0) continue;
    total += x->shape[axis];
    parts.push_back(x);
    ends.push_back(total);
  }
  Shape shape = node.shape(0);
  shape[axis] = total;
  return Buffers{b.compute(name, axes_over(shape), [&](const te::Indices& i) {
    return choose_part(parts, ends, 0, parts.size(), i, axis);
  })};
}

Result<Tensors> evaluate_concat(const NodeView& node, const std::vector<const HostTensor*>& in) {
  const std::size_t axis = static_cast<std::size_t>(node.attrs.integer("axis"));
  Shape shape = in[0]->shape();
  for (std::size_t k = 1; k < in.size(); ++k) shape[axis] += in[k]->shape()[axis];
  HostTensor out(in[0]->dtype(), shape);
  const std::int64_t outer = span_size(shape, 0, axis), row = span_size(shape, axis, shape.size());
  std::int64_t at = 0;
  for (const HostTensor* x : in) {
    const std::int64_t run = span_size(x->shape(), axis, shape.size());
    copy_strided(x->data(), out.as<std::byte>() + at * size_bytes(out.dtype()),
                 {{outer, run, row}, {run, 1, 1}}, size_bytes(out.dtype()));
    at += run;
  }
  return Tensors{out};
}

}  // namespace

std::vector<OpDef> movement_ops() {
  return {
      with(fact::kReshapes,
           {"reshape", Fusion::kAlias, infer_reshape, define_reshape, evaluate_reshape}),
      with(fact::kPermutes, {"transpose", Fusion::kInjective, infer_transpose, define_transpose,
                             evaluate_transpose}),
      with(fact::kKeepsAxes | fact::kPerAxis,
           {"expand", Fusion::kInjective, infer_expand, define_expand, evaluate_expand}),
      with(fact::kKeepsAxes | fact::kPerAxis,
           {"slice", Fusion::kInjective, infer_slice, define_slice, evaluate_slice}),
      with(fact::kKeepsAxes | fact::kJoins | fact::kAxis,
           {"concat", Fusion::kInjective, infer_concat, define_concat, evaluate_concat}),
      with(fact::kKeepsAxes | fact::kPerAxis, pad_op()),
  };
}

}  // namespace tessera::graph
