#include <algorithm>
#include <string_view>

#include "tessera/graph/passes/algorithms.h"
#include "tessera/graph/passes/decide.h"
#include "tessera/graph/passes/editor.h"
#include "tessera/plan/columns.h"
#include "tessera/plan/pointwise.h"
#include "tessera/te/ops/columns.h"
#include "tessera/te/ops/winograd.h"

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
  const HostTensor* weights = g.constant(conv.inputs[1]);
  c.transformable = weights && weights->dtype() == DType::kF32 && weights->size() > 0 &&
                    g.type(conv.inputs[0]).dtype == DType::kF32;
  return c;
}

thread_local bool shapes_only = false;

Result<HostTensor> transformed(const HostTensor& w, int m) {
  if (!shapes_only) return te::winograd_weights(w, m);
  Shape shape(2, m + 2);
  shape.insert(shape.end(), w.shape().begin() + 2, w.shape().end() - 2);  // the depth
  shape.insert(shape.end(), {w.shape()[1], w.shape()[0]});
  return HostTensor(w.dtype(), shape);
}

Result<ValueId> to_winograd(Editor& e, const Node& conv, int m) {
  TESSERA_TRY(HostTensor u, transformed(*e.constant_of(conv.inputs[1]), m));
  const std::size_t rank = e.shape(conv.inputs[1]).size() - 2;
  return e.add("conv_winograd", {conv.inputs[0], e.constant(std::move(u))},
               {{"m", std::int64_t{m}},
                {"before", per_dim(conv, "before", rank, 0)},
                {"after", per_dim(conv, "after", rank, 0)}});
}

// The matrix of the windows, and the weights in its order.
struct Factors {
  ValueId image, weights;
};
Result<Factors> to_columns(Editor& e, const Node& conv) {
  const Shape w = e.shape(conv.inputs[1]);
  const std::size_t rank = w.size() - 2;
  const HostTensor& weights = *e.constant_of(conv.inputs[1]);
  HostTensor packed = shapes_only ? HostTensor(weights.dtype(), te::column_weights_shape(w))
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

Result<ValueId> to_contract(Editor& e, const Node& conv) {
  Factors factors{conv.inputs[0], conv.inputs[1]};
  const Shape w = e.shape(factors.weights), y_shape = e.shape(conv.outputs[0]);
  const std::int64_t co = w[0], positions = elements(y_shape) / std::max<std::int64_t>(1, co);
  const Integers strides = per_dim(conv, "strides", w.size() - 2, 1);
  const bool strided =
      std::any_of(strides.begin(), strides.end(), [](std::int64_t n) { return n > 1; });
  if (strided || elements(Shape(w.begin() + 2, w.end())) > 1) {
    TESSERA_TRY(factors, to_columns(e, conv));
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

}  // namespace

ShapesOnly::ShapesOnly() : before_(shapes_only) { shapes_only = true; }
ShapesOnly::~ShapesOnly() { shapes_only = before_; }
bool ShapesOnly::alive() { return shapes_only; }

std::optional<plan::Point> algorithm_point(const Graph& graph, const Node& node,
                                           const plan::Rules& rules) {
  if (std::string_view(node.op->name) != "conv") return std::nullopt;
  const plan::Convolution conv = describe(graph, node);
  const DType type = graph.type(node.inputs[0]).dtype;
  if ((type == DType::kF16 || type == DType::kBF16) && graph.constant(node.inputs[1])) {
    if (auto point = plan::columns_point(conv, rules)) return point;
  }
  return plan::algorithm_point(conv, rules);
}

std::optional<std::string> algorithm_key(const Graph& graph, const Node& node) {
  if (std::string_view(node.op->name) == "conv_winograd") {
    const Shape &u = graph.shape(node.inputs[1]), &out = graph.shape(node.outputs[0]);
    plan::Convolution c;
    c.in = graph.shape(node.inputs[0]);
    c.out = out;
    c.window = Shape(u.begin() + 2, u.end() - 2);
    c.window.insert(c.window.end(), {3, 3});
    c.before = per_dim(node, "before", c.window.size(), 0);
    c.after = per_dim(node, "after", c.window.size(), 0);
    return plan::algorithm_key(c);
  }
  const std::optional<plan::Point> point = algorithm_point(graph, node, {});
  if (!point || point->kind != plan::PointKind::kAlgorithm) return std::nullopt;
  return point->key;
}

Result<bool> select_algorithms(Graph& graph, const PassOptions& options) {
  return Editor(graph).rewrite([&](Editor& e, const Node& node) -> Result<ValueId> {
    const std::optional<plan::Point> point = algorithm_point(e.graph(), node, options.rules);
    if (!point) return kNoValue;
    TESSERA_TRY(const std::string chosen, decide(options, *point));
    if (chosen == plan::kDirect || chosen == plan::kChained) return kNoValue;
    if (chosen == plan::kProduct) return to_contract(e, node);
    return to_winograd(e, node, te::winograd_tile(chosen));
  });
}

}  // namespace tessera::graph
