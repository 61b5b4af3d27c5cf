#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>

#include "tessera/frontend/graph/passes/algorithms.h"
#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/plan/columns.h"
#include "tessera/frontend/plan/pointwise.h"
#include "tessera/lang/te/ops/columns.h"
#include "tessera/lang/te/ops/winograd.h"
#include "tessera/lang/te/ops/winograd_transposed.h"

namespace tessera::graph {
namespace {

using Integers = std::vector<std::int64_t>;

Integers per_dim(const Node& conv, const char* name, std::size_t rank, std::int64_t absent) {
  return conv.attrs.has(name) ? conv.attrs.integers(name) : Integers(rank, absent);
}

plan::Convolution describe(const Graph& g, const Node& conv) {
  const Shape& w = g.shape(conv.inputs[1]);
  const std::size_t rank = w.size() - 2;
  plan::Convolution c;
  c.in = g.shape(conv.inputs[0]);
  c.out = g.shape(conv.outputs[0]);
  c.window = Shape(w.begin() + 2, w.end());
  c.strides = per_dim(conv, "strides", rank, 1);
  c.dilations = per_dim(conv, "dilations", rank, 1);
  c.before = per_dim(conv, "before", rank, 0);
  c.after = per_dim(conv, "after", rank, 0);
  c.groups = conv.attrs.integer("group", 1);
  c.channels_last = conv.attrs.word("layout") == "nhwc";
  // read_images changed what it reads, not what it is.
  if (c.channels_last && conv.attrs.has("reads"))
    std::rotate(c.in.begin() + 1, c.in.begin() + 2, c.in.end());
  if (conv.op->is(fact::kTransposed)) {
    c.transposed = true;
    const Integers extra = per_dim(conv, "output_padding", rank, 0);
    for (std::size_t d = 0; d < rank; ++d) c.after[d] -= extra[d];
  }
  const HostTensor* weights = g.constant(conv.inputs[1]);
  c.transformable = weights && weights->dtype() == DType::kF32 && weights->size() > 0 &&
                    g.type(conv.inputs[0]).dtype == DType::kF32;
  return c;
}

// Stands for weights that are not computed. It is like no other, so that nodes that read different
// weights stay different.
HostTensor uncomputed(DType dtype, const Shape& shape) {
  static std::atomic<std::uint64_t> last{0};
  HostTensor t(dtype, shape);
  const std::uint64_t number = ++last;
  std::memcpy(t.data(), &number, std::min(t.bytes(), sizeof(number)));
  return t;
}

Result<ValueId> to_winograd(Editor& e, const Node& conv, int m, bool shapes_only) {
  const HostTensor& w = *e.constant_of(conv.inputs[1]);
  HostTensor u;
  if (shapes_only) {
    u = uncomputed(w.dtype(), te::winograd_weights_shape(w.shape(), m));
  } else {
    TESSERA_TRY(u, te::winograd_weights(w, m));
  }
  const std::size_t rank = w.shape().size() - 2;
  return e.add("conv_winograd", {conv.inputs[0], e.constant(std::move(u))},
               {{"m", std::int64_t{m}},
                {"before", per_dim(conv, "before", rank, 0)},
                {"after", per_dim(conv, "after", rank, 0)}});
}

Result<ValueId> to_transposed_winograd(Editor& e, const Node& conv,
                                       const plan::Convolution& described, int m,
                                       bool shapes_only) {
  const HostTensor& w = *e.constant_of(conv.inputs[1]);
  const std::vector<te::TransposedWindow> windows = plan::transposed_windows(described);
  HostTensor u;
  if (shapes_only) {
    u = uncomputed(w.dtype(), te::winograd_weights_shape(w.shape(), windows, m));
  } else {
    TESSERA_TRY(u, te::winograd_weights(w, windows, m));
  }
  return e.add("conv_transpose_winograd", {conv.inputs[0], e.constant(std::move(u))},
               {{"m", std::int64_t{m}},
                {"kernel", described.window},
                {"strides", described.strides},
                {"before", described.before},
                {"after", per_dim(conv, "after", 2, 0)},
                {"output_padding", per_dim(conv, "output_padding", 2, 0)}});
}

Result<ValueId> gathered(Editor& e, const Node& conv) {
  Attrs attrs = conv.attrs;
  attrs.set("gathered", std::int64_t{1});
  return e.add("conv_transpose", conv.inputs, attrs);
}

// The matrix of the windows, and the weights in its order.
struct Factors {
  ValueId image, weights;
};
Result<Factors> to_columns(Editor& e, const Node& conv, bool shapes_only) {
  const Shape w = e.shape(conv.inputs[1]);
  const std::size_t rank = w.size() - 2;
  const HostTensor& weights = *e.constant_of(conv.inputs[1]);
  HostTensor packed = shapes_only ? uncomputed(weights.dtype(), te::column_weights_shape(w))
                                  : te::column_weights(weights);
  TESSERA_TRY(const ValueId image, e.add("columns", {conv.inputs[0]},
                                         {{"window", Shape(w.begin() + 2, w.end())},
                                          {"strides", per_dim(conv, "strides", rank, 1)},
                                          {"dilations", per_dim(conv, "dilations", rank, 1)},
                                          {"before", per_dim(conv, "before", rank, 0)},
                                          {"after", per_dim(conv, "after", rank, 0)},
                                          {"layout", std::string("nhwc")}}));
  return Factors{image, e.constant(std::move(packed))};
}

Result<ValueId> to_contract(Editor& e, const Node& conv, bool shapes_only) {
  Factors factors{conv.inputs[0], conv.inputs[1]};
  const Shape w = e.shape(factors.weights), y_shape = e.shape(conv.outputs[0]);
  const std::int64_t co = w[0], positions = elements(y_shape) / std::max<std::int64_t>(1, co);
  const Integers strides = per_dim(conv, "strides", w.size() - 2, 1);
  const bool strided =
      std::any_of(strides.begin(), strides.end(), [](std::int64_t n) { return n > 1; });
  if (strided || elements(Shape(w.begin() + 2, w.end())) > 1) {
    TESSERA_TRY(factors, to_columns(e, conv, shapes_only));
  }
  const std::int64_t ci = elements(e.shape(factors.weights)) / std::max<std::int64_t>(1, co);
  TESSERA_TRY(const ValueId rows,
              e.add("reshape", {factors.image}, {{"shape", Shape{positions, ci}}}));
  TESSERA_TRY(const ValueId weights,
              e.add("reshape", {factors.weights}, {{"shape", Shape{co, ci}}}));
  TESSERA_TRY(
      const ValueId y,
      e.add("contract", {rows, weights},
            {{"a", std::string("mk")}, {"b", std::string("nk")}, {"out", std::string("mn")}}));
  return e.add("reshape", {y}, {{"shape", y_shape}});
}

// The same convolution of an image with one channel, whose rows hold the channels of all columns
// side by side: windows are as many times as wide, up to a multiple of what instructions add up.
Result<ValueId> to_rows(Editor& e, const Node& conv, const plan::Convolution& c, bool shapes_only) {
  const HostTensor& w = *e.constant_of(conv.inputs[1]);
  const std::int64_t group = plan::row_group(w.dtype());
  const std::int64_t channels = c.in.back(), height = c.window[0], width = c.window[1];
  const std::int64_t wide = (channels * width + group - 1) / group * group;
  const Shape shape = {w.shape()[0], 1, height, wide};
  HostTensor weights = shapes_only ? uncomputed(w.dtype(), shape) : HostTensor(w.dtype(), shape);
  if (!shapes_only) {
    const auto size = static_cast<std::size_t>(size_bytes(w.dtype()));
    std::memset(weights.data(), 0, weights.bytes());
    const auto* from = static_cast<const unsigned char*>(w.data());
    auto* to = static_cast<unsigned char*>(weights.data());
    for (std::int64_t i = 0; i < w.size(); ++i) {
      const std::int64_t x = i % width, row = i / width, y = row % height, plane = row / height;
      const std::int64_t at =
          (plane / channels * height + y) * wide + x * channels + plane % channels;
      std::memcpy(to + static_cast<std::size_t>(at) * size,
                  from + static_cast<std::size_t>(i) * size, size);
    }
  }
  const std::int64_t step = c.strides[1] * channels, before = c.before[1] * channels;
  const std::int64_t read = (c.out[2] - 1) * step + wide, there = before + c.in[2] * channels;
  TESSERA_TRY(const ValueId rows,
              e.add("reshape", {conv.inputs[0]},
                    {{"shape", Shape{c.in[0], c.in[1], c.in[2] * channels, 1}}}));
  return e.add("conv", {rows, e.constant(std::move(weights))},
               {{"strides", Shape{c.strides[0], step}},
                {"dilations", c.dilations},
                {"before", Shape{c.before[0], before}},
                {"after", Shape{c.after[0], std::max<std::int64_t>(0, read - there)}},
                {"group", std::int64_t{1}},
                {"layout", std::string("nhwc")}});
}

std::optional<plan::Point> rows_point(const Graph& graph, const Node& node,
                                      const plan::Convolution& conv, const plan::Rules& rules) {
  return graph.constant(node.inputs[1])
             ? plan::rows_point(conv, graph.type(node.inputs[0]).dtype, rules)
             : std::nullopt;
}

}  // namespace

std::optional<plan::Point> algorithm_point(const Graph& graph, const Node& node,
                                           const plan::Rules& rules) {
  if (!node.op->is(fact::kConvolves)) return std::nullopt;
  const plan::Convolution conv = describe(graph, node);
  if (conv.transposed) {
    if (node.attrs.has("gathered")) return std::nullopt;
    if (auto point = plan::transposed_columns_point(conv, rules)) return point;
    return plan::algorithm_point(conv, rules);
  }
  const DType type = graph.type(node.inputs[0]).dtype;
  if (size_bytes(type) <= 2 && graph.constant(node.inputs[1])) {
    if (auto point = plan::columns_point(conv, rules)) return point;
  }
  if (auto point = rows_point(graph, node, conv, rules)) return point;
  return plan::algorithm_point(conv, rules);
}

std::optional<std::string> algorithm_key(const Graph& graph, const Node& node) {
  const std::string_view op = node.op->name;
  if (op == "conv_winograd" || op == "conv_transpose_winograd") {
    const Shape& u = graph.shape(node.inputs[1]);
    plan::Convolution c;
    c.in = graph.shape(node.inputs[0]);
    c.out = graph.shape(node.outputs[0]);
    c.transposed = op == "conv_transpose_winograd";
    if (c.transposed) {
      c.window = node.attrs.integers("kernel");
    } else {
      const std::int64_t m = node.attrs.integer("m");
      c.window = Shape(u.begin() + 2, u.end() - 2);
      for (std::size_t d = 0; d < 2; ++d) c.window.push_back(u[d] == 1 ? 1 : u[d] - m + 1);
    }
    const std::size_t rank = c.window.size();
    c.strides = per_dim(node, "strides", rank, 1);
    c.before = per_dim(node, "before", rank, 0);
    c.after = per_dim(node, "after", rank, 0);
    const Integers extra = per_dim(node, "output_padding", rank, 0);
    for (std::size_t d = 0; d < rank; ++d) c.after[d] -= extra[d];
    return plan::algorithm_key(c);
  }
  const std::optional<plan::Point> point = algorithm_point(graph, node, {});
  if (!point || point->kind != plan::PointKind::kAlgorithm) return std::nullopt;
  return point->name;
}

Result<bool> select_algorithms(Graph& graph, const PassOptions& options) {
  return Editor(graph).rewrite([&](Editor& e, const Node& node) -> Result<ValueId> {
    const std::optional<plan::Point> point = algorithm_point(e.graph(), node, options.rules);
    if (!point) return kNoValue;
    TESSERA_TRY(const std::string chosen, decide(options, *point));
    if (chosen == plan::kDirect || chosen == plan::kChained) return kNoValue;
    const plan::Convolution conv = describe(e.graph(), node);
    const bool shapes_only = options.shapes_only;
    if (chosen == plan::kProduct && rows_point(e.graph(), node, conv, options.rules))
      return to_rows(e, node, conv, shapes_only);
    if (chosen == plan::kProduct)
      return conv.transposed ? gathered(e, node) : to_contract(e, node, shapes_only);
    const int m = te::winograd_tile(chosen);
    return conv.transposed ? to_transposed_winograd(e, node, conv, m, shapes_only)
                           : to_winograd(e, node, m, shapes_only);
  });
}

}  // namespace tessera::graph
