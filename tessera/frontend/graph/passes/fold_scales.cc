// With W the operator's constant operand and s, b constants that vary along channels only:
//   op(x, W) * s           -> op(x, W * s)
//   (op(x, W) + b) * s     -> op(x, W * s) + b * s
//   (v + a) + b            -> v + (a + b)
//   (v * a) * b            -> v * (a * b)
//   conv(x * s, W)         -> conv(x, W * s)
//   conv(x + b, W)         -> conv(x, W) + conv(b, W), where nothing is padded
#include <algorithm>
#include <string_view>

#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/support/planted.h"

namespace tessera::graph {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// `node` as op(v, c) with a constant c; the operator commutes.
struct WithConstant {
  ValueId v = kNoValue, c = kNoValue;
};
std::optional<WithConstant> with_constant(const Editor& e, const Node* node, std::string_view op) {
  if (!node || node->op->name != op || node->inputs.size() != 2) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId v = node->inputs[1 - i], c = node->inputs[i];
    if (!e.constant_of(c) || e.constant_of(v)) continue;
    if (!(e.graph().type(v) == e.graph().type(node->outputs[0]))) return std::nullopt;
    return WithConstant{v, c};
  }
  return std::nullopt;
}

// The elements of `c` along `axis` of a value of `shape` it is broadcast to; none when it varies
// along another axis.
std::optional<std::vector<double>> per_channel(const HostTensor& c, const Shape& shape,
                                               std::size_t axis) {
  const std::size_t offset = shape.size() - c.shape().size();
  for (std::size_t d = 0; d < c.shape().size(); ++d) {
    if (c.shape()[d] != 1 && d + offset != axis) return std::nullopt;
  }
  std::vector<double> out;
  for (std::int64_t i = 0; i < shape[axis]; ++i) {
    out.push_back(c.get_float(c.size() == 1 ? 0 : i));
  }
  return out;
}

// w[.., i, ..] * factor(i), rounded once; the factor is the same for `run` elements in a row.
template <class Factor>
HostTensor scaled(const HostTensor& w, std::int64_t run, Factor factor) {
  HostTensor out(w.dtype(), w.shape());
  const std::int64_t size = w.size();
  for (std::int64_t begin = 0; begin < size; begin += run) {
    const double f = factor(begin);
    if (w.dtype() == DType::kF32) {
      const float* from = w.as<float>() + begin;
      float* to = out.as<float>() + begin;
      for (std::int64_t i = 0; i < run; ++i) to[i] = static_cast<float>(from[i] * f);
    } else {
      for (std::int64_t i = begin; i < begin + run; ++i) out.set_float(i, w.get_float(i) * f);
    }
  }
  return out;
}

std::size_t channel_axis(const Node& conv, const Shape& image) {
  return conv.attrs.word("layout") == "nhwc" ? image.size() - 1 : 1;
}

// conv: weights [co, ci / groups, k...]; conv_transpose: [ci, co / groups, k...].
HostTensor scale_conv_result(const HostTensor& w, const std::vector<double>& s, const Node& conv) {
  const std::int64_t row = w.size() / w.shape()[0], kernel = row / w.shape()[1];
  if (!conv.op->is(fact::kTransposed)) {
    return scaled(w, row, [&](std::int64_t i) { return s[at(i / row)]; });
  }
  const std::int64_t ci_per_group = w.shape()[0] / conv.attrs.integer("group", 1);
  return scaled(w, kernel, [&](std::int64_t i) {
    return s[at(i / row / ci_per_group * w.shape()[1] + i % row / kernel)];
  });
}

HostTensor scale_conv_operand(const HostTensor& w, const std::vector<double>& s, const Node& conv) {
  const std::int64_t row = w.size() / w.shape()[0], kernel = row / w.shape()[1];
  const std::int64_t co_per_group = w.shape()[0] / conv.attrs.integer("group", 1);
  return scaled(w, kernel, [&](std::int64_t i) {
    return s[at(i / row / co_per_group * w.shape()[1] + i % row / kernel)];
  });
}

bool is_conv(const Node& node) { return node.op->is(fact::kConvolves); }

// `linear` with its weights multiplied by `factor`, a constant that its result is multiplied with.
Result<ValueId> scale_result(Editor& e, const Node& linear, const HostTensor& factor) {
  const Shape& shape = e.shape(linear.outputs[0]);
  if (is_conv(linear)) {
    const HostTensor* w = e.constant_of(linear.inputs[1]);
    if (!w || w->size() == 0) return kNoValue;
    const auto s = per_channel(factor, shape, channel_axis(linear, shape));
    if (!s) return kNoValue;
    const ValueId scaled_w = e.constant(scale_conv_result(*w, *s, linear));
    return e.add(linear.op->name, {linear.inputs[0], scaled_w}, linear.attrs);
  }
  for (std::size_t side = 0; side < 2; ++side) {
    const HostTensor* w = e.constant_of(linear.inputs[side]);
    if (!w || w->size() == 0) continue;
    const std::string &labels = linear.attrs.word(side == 0 ? "a" : "b"),
                      &out = linear.attrs.word("out");
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::size_t axis = labels.find(out[d]);
      const auto s = per_channel(factor, shape, d);
      if (axis == std::string::npos || !s) continue;
      std::int64_t inner = 1;
      for (std::size_t k = axis + 1; k < w->shape().size(); ++k) inner *= w->shape()[k];
      std::vector<ValueId> inputs = linear.inputs;
      inputs[side] = e.constant(scaled(
          *w, inner, [&](std::int64_t i) { return (*s)[at(i / inner % w->shape()[axis])]; }));
      return e.add("contract", inputs, linear.attrs);
    }
  }
  return kNoValue;
}

// A conv, conv_transpose or contract of floats that only the node at hand reads.
const Node* own_linear(const Editor& e, ValueId id) {
  const Node* node = e.producer(id);
  if (!node || !e.has_one_reader(id) || !is_float(e.dtype(id))) return nullptr;
  if (is_conv(*node)) return e.constant_of(node->inputs[1]) ? node : nullptr;
  const bool constant = node->op->is(fact::kContracts) &&
                        (e.constant_of(node->inputs[0]) || e.constant_of(node->inputs[1]));
  return constant ? node : nullptr;
}

// (v op a) op b -> v op (a op b).
Result<ValueId> merge_constants(Editor& e, const WithConstant& outer, std::string_view op) {
  const auto inner = with_constant(e, e.producer(outer.v), op);
  if (!inner || !e.has_one_reader(outer.v)) return kNoValue;
  TESSERA_TRY(const ValueId both, e.add(op, {inner->c, outer.c}));
  // Broadcasting one against the other may not make a constant of the size of the value.
  if (!e.constant_of(both) ||
      e.constant_of(both)->size() >
          std::max(e.constant_of(inner->c)->size(), e.constant_of(outer.c)->size())) {
    return kNoValue;
  }
  return e.add(op, {inner->v, both});
}

Result<ValueId> fold_mul(Editor& e, const Node& node) {
  const auto mul = with_constant(e, &node, "mul");
  if (!mul || !is_float(e.dtype(mul->v))) return kNoValue;
  const HostTensor factor = *e.constant_of(mul->c);
  if (const Node* linear = own_linear(e, mul->v)) return scale_result(e, *linear, factor);
  if (const auto add = with_constant(e, e.producer(mul->v), "add");
      add && e.has_one_reader(mul->v)) {
    const Node* linear = own_linear(e, add->v);
    if (!linear) return kNoValue;
    TESSERA_TRY(const ValueId product, scale_result(e, *linear, factor));
    if (product == kNoValue) return kNoValue;
    TESSERA_TRY(const ValueId bias, e.add("mul", {add->c, mul->c}));
    return e.add(planted(5) ? "sub" : "add", {product, bias});
  }
  return merge_constants(e, *mul, "mul");
}

bool pads(const Node& conv) {
  for (const char* name : {"before", "after"}) {
    if (!conv.attrs.has(name)) continue;
    const auto& list = conv.attrs.integers(name);
    if (std::any_of(list.begin(), list.end(), [](std::int64_t p) { return p != 0; })) return true;
  }
  return false;
}

// Sum over input channels and kernel of w * b: what an offset of the input adds to each channel.
HostTensor offset_of_result(const HostTensor& w, const std::vector<double>& b, const Node& conv) {
  HostTensor out(w.dtype(), {w.shape()[0]});
  const std::int64_t row = w.size() / w.shape()[0], kernel = row / w.shape()[1];
  const std::int64_t co_per_group = w.shape()[0] / conv.attrs.integer("group", 1);
  for (std::int64_t co = 0; co < w.shape()[0]; ++co) {
    double sum = 0;
    for (std::int64_t i = 0; i < row; ++i) {
      sum += w.get_float(co * row + i) * b[at(co / co_per_group * w.shape()[1] + i / kernel)];
    }
    out.set_float(co, sum);
  }
  return out;
}

Result<ValueId> fold_into_conv(Editor& e, const Node& conv) {
  const ValueId x = conv.inputs[0];
  if (!e.constant_of(conv.inputs[1]) || !e.has_one_reader(x)) return kNoValue;
  const HostTensor w = *e.constant_of(conv.inputs[1]);
  if (w.size() == 0 || !is_float(w.dtype())) return kNoValue;
  const std::size_t axis = channel_axis(conv, e.shape(x));
  if (const auto mul = with_constant(e, e.producer(x), "mul")) {
    const auto s = per_channel(*e.constant_of(mul->c), e.shape(x), axis);
    if (!s) return kNoValue;
    const ValueId scaled_w = e.constant(scale_conv_operand(w, *s, conv));
    return e.add("conv", {mul->v, scaled_w}, conv.attrs);
  }
  const auto add = with_constant(e, e.producer(x), "add");
  if (!add || pads(conv)) return kNoValue;
  const auto b = per_channel(*e.constant_of(add->c), e.shape(x), axis);
  if (!b) return kNoValue;
  TESSERA_TRY(const ValueId y, e.add("conv", {add->v, conv.inputs[1]}, conv.attrs));
  const ValueId flat = e.constant(offset_of_result(w, *b, conv));
  Shape shape(e.shape(y).size(), 1);
  shape[axis] = w.shape()[0];
  TESSERA_TRY(const ValueId offset, e.add("reshape", {flat}, {{"shape", shape}}));
  return e.add("add", {y, offset});
}

}  // namespace

Result<bool> fold_scales(Graph& graph, const PassOptions& options) {
  if (!options.allow_reassociation) return false;
  bool changed = false;
  for (bool again = true; again;) {
    const auto rule = [](Editor& e, const Node& node) -> Result<ValueId> {
      if (std::string_view(node.op->name) == "mul") return fold_mul(e, node);
      if (is_conv(node) && !node.op->is(fact::kTransposed)) return fold_into_conv(e, node);
      const auto add = with_constant(e, &node, "add");
      if (add && is_float(e.dtype(add->v))) return merge_constants(e, *add, "add");
      return kNoValue;
    };
    TESSERA_TRY(again, Editor(graph).rewrite(rule));
    compact(graph);
    changed = changed || again;
  }
  return changed;
}

}  // namespace tessera::graph
