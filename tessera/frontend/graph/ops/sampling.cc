// Operators that read images between pixels: upsample, resize, grid_sample, col2im.
#include <algorithm>
#include <numeric>

#include "tessera/frontend/graph/ops/broadcast.h"
#include "tessera/frontend/graph/ops/data_movement.h"
#include "tessera/frontend/graph/ops/ops.h"
#include "tessera/lang/te/ops/window.h"

namespace tessera::graph {

std::vector<OpDef> grid_ops();

namespace {

using Buffers = std::vector<ir::Buffer>;
using Types = std::vector<TensorType>;

// Products of weights are written out up to this many, so that the stage can be fused as a plain
// expression; beyond it they are a reduction.
constexpr std::int64_t kMaxInlineTaps = 8;

ir::Expr to_type(DType t, const ir::Expr& e) { return e.dtype() == t ? e : ir::cast(t, e); }

// upsample {factors}: y[i, ...] = x[i // factor, ...], factors >= 1, one per axis.
Result<Types> infer_upsample(const NodeView& node) {
  const std::vector<std::int64_t>& factors = node.attrs.integers("factors");
  Shape shape = node.shape(0);
  if (factors.size() != shape.size())
    return bad_operand("{} factors for rank {}", factors.size(), shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (factors[d] < 1 || (shape[d] > 0 && factors[d] > (std::int64_t{1} << 46) / shape[d]))
      return bad_operand("factor {} of axis {}", factors[d], d);
    shape[d] *= factors[d];
  }
  return single_type(node.dtype(0), std::move(shape));
}

Result<Buffers> define_upsample(te::DagBuilder& b, const std::string& name, const NodeView& node,
                                const Buffers& in) {
  const std::vector<std::int64_t>& factors = node.attrs.integers("factors");
  Shape shape = node.shape(0);
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] *= factors[d];
  return Buffers{b.compute(name, axes_over(shape), [&](const te::Indices& i) {
    te::Indices from = i;
    for (std::size_t d = 0; d < i.size(); ++d) {
      if (factors[d] != 1) from[d] = ir::floor_div(i[d], ir::int_imm(factors[d]));
    }
    return te::at(in[0], from);
  })};
}

Result<std::vector<HostTensor>> evaluate_upsample(const NodeView& node,
                                                  const std::vector<const HostTensor*>& in) {
  HostTensor out = *in[0];
  const std::vector<std::int64_t>& factors = node.attrs.integers("factors");
  for (std::size_t d = 0; d < factors.size(); ++d) {
    if (factors[d] == 1) continue;
    std::vector<std::int64_t> picks(static_cast<std::size_t>(out.shape()[d] * factors[d]));
    for (std::size_t i = 0; i < picks.size(); ++i)
      picks[i] = static_cast<std::int64_t>(i) / factors[d];
    out = take(out, d, picks);
  }
  return std::vector<HostTensor>{out};
}

// resize {axes} x, then for each axis a constant index i64[out, taps] and a constant weight
// [out, taps] (omitted: one tap of weight 1): y = sum over taps of weight * x[index]. Weights have
// the type in which x is computed.
Result<void> check_table(const NodeView& node, std::size_t input, std::int64_t n) {
  if (!node.has(input) || node.dtype(input) != DType::kI64 || node.shape(input).size() != 2)
    return bad_operand("an index table must be i64[size, taps]");
  const HostTensor* table = node.constants[input];
  if (table == nullptr) return bad_operand("an index table must be constant");
  for (std::int64_t i = 0; i < table->size(); ++i) {
    const std::int64_t at = table->as<std::int64_t>()[i];
    if (at < 0 || at >= n) return bad_operand("index {} into a dimension of size {}", at, n);
  }
  if (!node.has(input + 1)) {
    return node.shape(input)[1] == 1 ? Result<void>() : bad_operand("taps without weights");
  }
  const DType weight = compute_type(node.dtype(0));
  if (!is_float(weight) || node.dtype(input + 1) != weight ||
      node.shape(input + 1) != node.shape(input)) {
    return bad_operand("weights {} for indices {} into {}", to_text(*node.types[input + 1]),
                       to_text(*node.types[input]), to_text(*node.types[0]));
  }
  return {};
}

Result<Types> infer_resize(const NodeView& node) {
  const std::vector<std::int64_t>& axes = node.attrs.integers("axes");
  Shape shape = node.shape(0);
  if (node.size() != 1 + 2 * axes.size())
    return bad_operand("{} inputs for {} axes", node.size(), axes.size());
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const bool known = axes[k] >= 0 && axes[k] < static_cast<std::int64_t>(shape.size()) &&
                       std::count(axes.begin(), axes.end(), axes[k]) == 1;
    if (!known) return bad_operand("axis {} of rank {}", axes[k], shape.size());
    std::int64_t& size = shape[static_cast<std::size_t>(axes[k])];
    TESSERA_DO(check_table(node, 1 + 2 * k, size));
    size = node.shape(1 + 2 * k)[0];
  }
  return single_type(node.dtype(0), std::move(shape));
}

class ResizeStage {
 public:
  ResizeStage(const NodeView& node, const Buffers& in)
      : axes_(node.attrs.integers("axes")), in_(in), acc_(compute_type(node.dtype(0))) {}

  std::int64_t taps(std::size_t k) const { return in_[1 + 2 * k]->shape[1]; }

  // The sum over the taps of axes k and later, written out.
  ir::Expr inline_sum(te::Indices i, std::size_t k) const {
    if (k == axes_.size()) return to_type(acc_, te::at(in_[0], std::move(i)));
    ir::Expr sum;
    const ir::Expr at = i[axis(k)];
    for (std::int64_t tap = 0; tap < taps(k); ++tap) {
      i[axis(k)] = te::at(in_[1 + 2 * k], {at, ir::int_imm(tap)});
      ir::Expr term = inline_sum(i, k + 1);
      if (in_[2 + 2 * k]) term = term * te::at(in_[2 + 2 * k], {at, ir::int_imm(tap)});
      sum = sum ? sum + term : term;
    }
    return sum;
  }

  // One term of the sum; `tap` has one index per axis.
  ir::Expr term(const te::Indices& i, const te::Indices& tap) const {
    te::Indices from = i;
    ir::Expr weight;
    for (std::size_t k = 0; k < axes_.size(); ++k) {
      const te::Indices entry = {i[axis(k)], tap[k]};
      from[axis(k)] = te::at(in_[1 + 2 * k], entry);
      if (!in_[2 + 2 * k]) continue;
      const ir::Expr factor = te::at(in_[2 + 2 * k], entry);
      weight = weight ? weight * factor : factor;
    }
    const ir::Expr value = to_type(acc_, te::at(in_[0], from));
    return weight ? value * weight : value;
  }

 private:
  std::size_t axis(std::size_t k) const { return static_cast<std::size_t>(axes_[k]); }

  const std::vector<std::int64_t>& axes_;
  const Buffers& in_;
  DType acc_;
};

Result<Buffers> define_resize(te::DagBuilder& b, const std::string& name, const NodeView& node,
                              const Buffers& in) {
  const std::vector<std::int64_t>& axes = node.attrs.integers("axes");
  const ResizeStage stage(node, in);
  Shape shape = node.shape(0);
  te::NamedAxes tap_axes;
  std::int64_t total = 1;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    shape[static_cast<std::size_t>(axes[k])] = in[1 + 2 * k]->shape[0];
    tap_axes.emplace_back(fmt::format("k{}", k), stage.taps(k));
    total = std::min(total * stage.taps(k), kMaxInlineTaps + 1);
  }
  const DType t = node.dtype(0);
  if (total <= kMaxInlineTaps) {
    return Buffers{b.compute(name, axes_over(shape), [&](const te::Indices& i) {
      return to_type(t, stage.inline_sum(i, 0));
    })};
  }
  const bool cast = compute_type(t) != t;
  const ir::Buffer sum =
      b.reduce(cast ? name + ".sum" : name, te::Reducer::kSum, axes_over(shape), tap_axes,
               [&](const te::Indices& i, const te::Indices& tap) { return stage.term(i, tap); });
  if (!cast) return Buffers{sum};
  return Buffers{b.compute(name, axes_over(shape),
                           [&](const te::Indices& i) { return ir::cast(t, te::at(sum, i)); })};
}

// col2im {image, block, strides, before, after, dilations} x[N, C * prod(block), L]: adds up the
// blocks that cover each pixel of [N, C, image...].
struct Blocks {
  const std::vector<std::int64_t>&image, &block, &strides, &before, &dilations;
  std::size_t rank() const { return image.size(); }
};

Blocks read_blocks(const NodeView& node) {
  return {node.attrs.integers("image"), node.attrs.integers("block"),
          node.attrs.integers("strides"), node.attrs.integers("before"),
          node.attrs.integers("dilations")};
}

// Positions of the block along each axis of the image; they are the factors of L.
Shape block_counts(const NodeView& node) {
  const Blocks p = read_blocks(node);
  const std::vector<std::int64_t>& after = node.attrs.integers("after");
  Shape counts;
  for (std::size_t d = 0; d < p.rank(); ++d) {
    const std::int64_t room =
        p.image[d] + p.before[d] + after[d] - p.dilations[d] * (p.block[d] - 1) - 1;
    counts.push_back(room < 0 ? 0 : room / p.strides[d] + 1);
  }
  return counts;
}

Result<Types> infer_col2im(const NodeView& node) {
  const Blocks p = read_blocks(node);
  constexpr std::int64_t kLimit = std::int64_t{1} << 30;
  for (const auto* list : {&p.image, &p.block, &p.strides, &p.dilations}) {
    for (const std::int64_t v : *list) {
      if (list->size() != p.rank() || v < 1 || v > kLimit) return bad_operand("value {}", v);
    }
  }
  for (const auto* list : {&p.before, &node.attrs.integers("after")}) {
    for (const std::int64_t v : *list) {
      if (list->size() != p.rank() || v < 0 || v > kLimit) return bad_operand("pad {}", v);
    }
  }
  TESSERA_TRY(const std::int64_t block, checked_elements(p.block, DType::kI8));
  TESSERA_TRY(const std::int64_t count, checked_elements(block_counts(node), DType::kI8));
  const Shape& x = node.shape(0);
  if (x.size() != 3 || block == 0 || x[1] % block != 0 || x[2] != count) {
    return bad_operand("columns {} for {} blocks of {} pixels", to_text(x), count, block);
  }
  if (node.dtype(0) == DType::kBool) return bad_operand("col2im of bool");
  Shape shape = {x[0], x[1] / block};
  shape.insert(shape.end(), p.image.begin(), p.image.end());
  return single_type(node.dtype(0), std::move(shape));
}

Result<Buffers> define_col2im(te::DagBuilder& b, const std::string& name, const NodeView& node,
                              const Buffers& in) {
  const Blocks p = read_blocks(node);
  const Shape counts = block_counts(node);
  TESSERA_TRY(const Types types, infer_col2im(node));
  const DType t = node.dtype(0), acc = compute_type(t);
  const te::NamedAxes axes = axes_over(types[0].shape);
  te::NamedAxes taps;
  for (std::size_t d = 0; d < p.rank(); ++d) taps.emplace_back(fmt::format("k{}", d), p.block[d]);
  const ir::Buffer sum = b.reduce(
      acc == t ? name : name + ".sum", te::Reducer::kSum, axes, taps,
      [&](const te::Indices& i, const te::Indices& k) {
        ir::Expr tap = i[1], column = ir::int_imm(0), inside = ir::bool_imm(true);
        for (std::size_t d = 0; d < p.rank(); ++d) {
          const ir::Expr at = te::shifted(i[2 + d], p.before[d]) - te::scaled(k[d], p.dilations[d]);
          const ir::Expr stride = ir::int_imm(p.strides[d]);
          const ir::Expr position = ir::floor_div(at, stride);
          inside = ir::logical_and(inside, ir::eq(position * p.strides[d], at));
          inside = ir::logical_and(inside, ir::ge(position, ir::int_imm(0)));
          inside = ir::logical_and(inside, ir::lt(position, ir::int_imm(counts[d])));
          tap = tap * p.block[d] + k[d];
          column = column * counts[d] + position;
        }
        const ir::Expr value = to_type(acc, te::at(in[0], {i[0], tap, column}));
        return ir::select(inside, value, ir::zero({acc, 1}));
      });
  if (acc == t) return Buffers{sum};
  return Buffers{
      b.compute(name, axes, [&](const te::Indices& i) { return ir::cast(t, te::at(sum, i)); })};
}

}  // namespace

std::vector<OpDef> sampling_ops() {
  std::vector<OpDef> ops = {
      with(fact::kKeepsAxes | fact::kPerAxis,
           {"upsample", Fusion::kInjective, infer_upsample, define_upsample, evaluate_upsample}),
      with(fact::kKeepsAxes | fact::kSamples | fact::kAxes,
           {"resize", Fusion::kWindow, infer_resize, define_resize}),
      {"col2im", Fusion::kWindow, infer_col2im, define_col2im},
  };
  for (const OpDef& op : grid_ops()) ops.push_back(op);
  return ops;
}

}  // namespace tessera::graph
