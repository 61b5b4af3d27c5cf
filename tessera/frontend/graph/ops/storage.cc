// dequantize: what stored integers stand for. contract_stored: a product that reads its right
// operand from narrower storage. contract_rounded: one that rounds its left operand, too.
#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/frontend/graph/ops/broadcast.h"
#include "tessera/frontend/graph/ops/labels.h"
#include "tessera/frontend/graph/ops/ops.h"
#include "tessera/lang/te/ops/contract.h"
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/rounded_product.h"
#include "tessera/support/ceil_div.h"
#include "tessera/support/invalid.h"

namespace tessera::graph {
namespace {

using Types = std::vector<TensorType>;
using Buffers = std::vector<ir::Buffer>;

// Whether operand `i`, a scale or a zero point, fits elements of `data` in groups along an axis.
Result<void> check_shared(const NodeView& node, std::size_t i, const Shape& data) {
  if (!node.has(i)) return {};
  const Shape& shape = node.shape(i);
  const auto axis = static_cast<std::size_t>(node.attrs.integer("axis"));
  bool fits = shape.size() == data.size();
  for (std::size_t d = 0; fits && d < data.size(); ++d) {
    const std::int64_t group = d == axis ? node.attrs.integer("group") : 1;
    fits = shape[d] == 1 || shape[d] == ceil_div(data[d], group);
  }
  if (fits) return {};
  return invalid("{} does not fit groups of {} along axis {} of {}", to_text(shape),
                 node.attrs.integer("group"), axis, to_text(data));
}

Result<void> check_groups(const NodeView& node, std::size_t scale, const Shape& data) {
  const std::int64_t axis = node.attrs.integer("axis"), group = node.attrs.integer("group");
  if (axis < 0 || axis >= static_cast<std::int64_t>(data.size()) || group < 1)
    return invalid("groups of {} along axis {} of {}", group, axis, to_text(data));
  TESSERA_DO(check_shared(node, scale, data));
  return check_shared(node, scale + 1, data);
}

// Whether the third operand is added to the product, and no zero point.
bool adds(const NodeView& node) { return node.attrs.integer("adds", 0) != 0; }

// dequantize {axis, group, bits, to}: (q - zero) * scale. `bits` of an element count. The zero
// point is of the type of q, or a float.
Result<Types> infer_dequantize(const NodeView& node) {
  const DType q = node.dtype(0), to = node.attrs.dtype("to");
  const bool byte = q == DType::kI8 || q == DType::kU8;
  if (!byte || !node.has(1) || !is_float(node.dtype(1)) || !is_float(to))
    return invalid("cannot dequantize {} to {}", to_text(q), to_text(to));
  if (node.has(2) && (node.dtype(2) != q || adds(node)) && !is_float(node.dtype(2)))
    return invalid("the zero point is {}, the data {}", to_text(node.dtype(2)), to_text(q));
  const std::int64_t bits = node.attrs.integer("bits");
  if (bits != 2 && bits != 4 && bits != 8) return invalid("elements of {} bits", bits);
  TESSERA_DO(check_groups(node, 1, node.shape(0)));
  return Types{{to, node.shape(0)}};
}

// Positions of the scale (or zero point) of every element, by dimension.
class SharedIndex {
 public:
  SharedIndex(const Shape& shared, const Shape& data, const Attrs& attrs) : steps_(data.size()) {
    std::int64_t stride = 1;
    for (std::size_t d = data.size(); d-- > 0;) {
      const auto axis = static_cast<std::size_t>(attrs.integer("axis"));
      const std::int64_t group = d == axis ? attrs.integer("group") : 1;
      for (std::int64_t i = 0; i < data[d]; ++i)
        steps_[d].push_back(shared[d] == 1 ? 0 : i / group * stride);
      stride *= shared[d];
    }
  }
  // Of the elements of a row: all dimensions but the last.
  std::int64_t row(std::int64_t index, const Shape& data) const {
    std::int64_t out = 0;
    for (std::size_t d = data.size() - 1; d-- > 0;) {
      out += steps_[d][static_cast<std::size_t>(index % data[d])];
      index /= data[d];
    }
    return out;
  }
  std::int64_t column(std::int64_t i) const { return steps_.back()[static_cast<std::size_t>(i)]; }

 private:
  std::vector<std::vector<std::int64_t>> steps_;
};

Result<std::vector<HostTensor>> evaluate_dequantize(const NodeView& node,
                                                    const std::vector<const HostTensor*>& in) {
  const HostTensor& q = *in[0];
  const Shape& shape = q.shape();
  HostTensor out(node.attrs.dtype("to"), shape);
  if (out.size() == 0) return std::vector<HostTensor>{out};
  const bool zero = node.has(2);
  const SharedIndex scales(in[1]->shape(), shape, node.attrs);
  const SharedIndex zeros(zero ? in[2]->shape() : Shape(shape.size(), 1), shape, node.attrs);
  const std::int64_t columns = shape.back(), rows = out.size() / columns;
  const DType compute = compute_type(out.dtype());
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t scale_row = scales.row(r, shape), zero_row = zeros.row(r, shape);
    for (std::int64_t i = 0; i < columns; ++i) {
      const double z = zero ? in[2]->get_float(zero_row + zeros.column(i)) : 0;
      const auto element = static_cast<double>(q.get_int(r * columns + i));
      const double scale = in[1]->get_float(scale_row + scales.column(i));
      const double value = adds(node) ? element * scale + z : (element - z) * scale;
      out.set_float(r * columns + i, round_float(compute, value));
    }
  }
  return std::vector<HostTensor>{std::move(out)};
}

Result<Buffers> define_dequantize(te::DagBuilder& b, const std::string& name, const NodeView& node,
                                  const Buffers& in) {
  const DType to = node.attrs.dtype("to"), t = compute_type(to);
  const auto axis = static_cast<std::size_t>(node.attrs.integer("axis"));
  const auto shared = [&](const ir::Buffer& buffer, te::Indices at) {
    at[axis] = ir::floor_div(at[axis], ir::int_imm(node.attrs.integer("group")));
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (buffer->shape[d] == 1) at[d] = ir::int_imm(0);
    }
    return te::to_type(t, te::at(buffer, at));
  };
  return Buffers{b.compute(name, axes_over(node.shape(0)), [&](const te::Indices& at) {
    ir::Expr value = te::to_type(t, te::at(in[0], at));
    if (node.has(2) && !adds(node)) value = value - shared(in[2], at);
    value = value * shared(in[1], at);
    if (node.has(2) && adds(node)) value = value + shared(in[2], at);
    return te::to_type(to, value);
  })};
}

// contract_stored {a, b, out, bits, axis, group, offset, adds}: operands are x, the data, its scale
// and its zero point, or what is added. Data of 0 bits have elements of their own, others words of
// i32 along `axis`.
te::Storage storage_of(const NodeView& node) {
  return {.bits = static_cast<int>(node.attrs.integer("bits")),
          .axis = static_cast<std::size_t>(node.attrs.integer("axis")),
          .group = node.attrs.integer("group"),
          .scale = {},
          .zero = {},
          .adds = adds(node),
          .offset = node.attrs.integer("offset")};
}

// The shape that the data stand for.
Shape wide_shape(const NodeView& node) {
  Shape shape = node.shape(1);
  const te::Storage storage = storage_of(node);
  shape[storage.axis] *= storage.per_word();
  return shape;
}

Result<Types> infer_contract_stored(const NodeView& node) {
  const DType x = node.dtype(0), data = node.dtype(1);
  const std::int64_t bits = node.attrs.integer("bits"), axis = node.attrs.integer("axis");
  const std::string &a = node.attrs.word("a"), &b = node.attrs.word("b");
  const bool words = bits == 2 || bits == 4;
  if (!is_float(x) || (bits != 0 && !words) || (words && data != DType::kI32))
    return invalid("no product of {} and {} in {} bits", to_text(x), to_text(data), bits);
  if (axis < 0 || axis >= static_cast<std::int64_t>(node.shape(1).size()) ||
      b.size() != node.shape(1).size())
    return invalid("no axis {} of {} ({})", axis, to_text(node.shape(1)), b);
  const char packed = b[static_cast<std::size_t>(axis)];
  if (a.find(packed) == std::string::npos ||
      node.attrs.word("out").find(packed) != std::string::npos)
    return invalid("{} is not summed over", packed);
  std::map<char, std::int64_t> extents;
  const Shape wide = wide_shape(node);
  TESSERA_DO(check_groups(node, 2, wide));
  TESSERA_DO(read_labels(a, node.shape(0), &extents));
  TESSERA_DO(read_labels(b, wide, &extents));
  TESSERA_TRY(const Shape shape, labelled_shape(node.attrs.word("out"), extents));
  return Types{{x, shape}};
}

Result<Buffers> define_contract_stored(te::DagBuilder& b, const std::string& name,
                                       const NodeView& node, const Buffers& in) {
  const DType out = node.dtype(0), acc = compute_type(out);
  te::Storage storage = storage_of(node);
  if (node.has(2)) storage.scale = in[2];
  if (node.has(3)) storage.zero = in[3];
  const te::Stage y =
      te::stored_contract_stage(b, acc == out ? name : name + ".acc", in[0], node.attrs.word("a"),
                                in[1], node.attrs.word("b"), node.attrs.word("out"), acc, storage);
  return Buffers{te::cast_output(b, y.buffer, out, y.axes, name)};
}

// contract_rounded {bits, offset, adds}: operands are x [.., k], the data, scales and zero points
// as te::RoundedWeights has them; the result is [.., columns].
Result<Types> infer_contract_rounded(const NodeView& node) {
  const std::int64_t bits = node.attrs.integer("bits");
  if (!is_float(node.dtype(0)) || node.dtype(1) != DType::kU8 || (bits != 4 && bits != 8)) {
    return invalid("no product of {} and {} in {} bits", to_text(node.dtype(0)),
                   to_text(node.dtype(1)), bits);
  }
  const Shape &x = node.shape(0), &data = node.shape(1);
  const bool fits = !x.empty() && data.size() == 3 && node.has(2) &&
                    x.back() == data[1] * data[2] * (8 / bits) &&
                    data[2] * (8 / bits) <= te::kRoundedBlock;
  if (!fits) return invalid("{} does not multiply blocks {}", to_text(x), to_text(data));
  for (std::size_t i = 2; i < node.size(); ++i) {
    if (!node.has(i)) continue;
    const Shape& shared = node.shape(i);
    const bool of_groups = shared.size() == 2 && shared[0] == data[0] && shared[1] > 0 &&
                           data[1] % shared[1] == 0 && shared == node.shape(2);
    if (!of_groups) return invalid("{} does not fit blocks {}", to_text(shared), to_text(data));
  }
  Shape out = x;
  out.back() = data[0];
  return Types{{node.dtype(0), out}};
}

Result<Buffers> define_contract_rounded(te::DagBuilder& b, const std::string& name,
                                        const NodeView& node, const Buffers& in) {
  const DType out = node.dtype(0);
  te::RoundedWeights w{.data = in[1],
                       .bits = static_cast<int>(node.attrs.integer("bits")),
                       .scale = in[2],
                       .zero = {},
                       .adds = adds(node),
                       .offset = node.attrs.integer("offset")};
  if (node.has(3)) w.zero = in[3];
  const te::Stage y =
      te::rounded_product_stage(b, out == DType::kF32 ? name : name + ".acc", in[0], w);
  return Buffers{te::cast_output(b, y.buffer, out, y.axes, name)};
}

}  // namespace

std::vector<OpDef> storage_ops() {
  return {
      {"contract_rounded", Fusion::kContraction, infer_contract_rounded, define_contract_rounded},
      {"contract_stored", Fusion::kContraction, infer_contract_stored, define_contract_stored},
      with(fact::kUnpacks, {"dequantize", Fusion::kInjective, infer_dequantize, define_dequantize,
                            evaluate_dequantize}),
  };
}

}  // namespace tessera::graph
