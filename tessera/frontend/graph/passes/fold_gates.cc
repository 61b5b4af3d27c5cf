// contract(x * g, W) -> contract(x, W * g), where g has one factor for each channel that is summed
// over and W is constant: the gates of squeeze-and-excite. W * g is computed in every run, which is
// less work than x * g where x has more rows than the product has columns.
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/permutation.h"

namespace tessera::graph {
namespace {

// x * g, read by one product only, perhaps through a reshape that keeps the last axis.
struct Gate {
  const Node* mul = nullptr;
  ValueId x = kNoValue, g = kNoValue;
};

std::optional<Gate> gate_of(const Editor& e, const Node& contract) {
  const ValueId a = contract.inputs[0];
  const Node* reshape = e.producer(a, "reshape");
  if (!e.has_one_reader(a)) return std::nullopt;
  const ValueId product = reshape ? reshape->inputs[0] : a;
  const Node* mul = e.producer(product, "mul");
  if (!mul || !e.has_one_reader(product) || !is_float(e.dtype(product))) return std::nullopt;
  const Shape shape = e.shape(product);
  if (shape.empty() || e.shape(a).back() != shape.back()) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    const Gate gate{mul, mul->inputs[1 - i], mul->inputs[i]};
    const Shape g = e.shape(gate.g);
    // One factor for each channel, the same everywhere.
    if (e.shape(gate.x) == shape && !g.empty() && g.back() == shape.back() && g.back() > 1 &&
        elements(g) == g.back() && elements(g) < elements(shape) && !e.constant_of(gate.g))
      return gate;
  }
  return std::nullopt;
}

Result<ValueId> fold(Editor& e, const Node& node, const PassOptions& options) {
  if (!node.op->is(fact::kContracts) || !e.constant_of(node.inputs[1]) ||
      node.attrs.has("a_starts") || node.attrs.has("b_starts"))
    return kNoValue;
  const std::string a = node.attrs.word("a"), b = node.attrs.word("b");
  const std::size_t axis = b.find(a.back());
  if (axis == std::string::npos || node.attrs.word("out").find(a.back()) != std::string::npos)
    return kNoValue;
  const auto gate = gate_of(e, node);
  if (!gate) return kNoValue;
  const Shape w = e.shape(node.inputs[1]);
  const bool pays = !options.rules.moves_inside && elements(e.shape(gate->x)) > elements(w);
  const std::string key = fmt::format("front gate {} {} of {}", to_text(e.shape(gate->x)),
                                      to_text(w), name_in_plan(e.graph(), *gate->mul));
  const plan::Point point =
      plan::make_point(plan::PointKind::kFront, key, pays ? plan::kFused : plan::kStored);
  TESSERA_TRY(const std::string chosen, decide(options, point));
  if (chosen == plan::kStored) return kNoValue;
  // The channels first: the columns of the product, which are its vectors, lie side by side.
  Permutation order = {static_cast<std::int64_t>(axis)};
  std::string labels(1, a.back());
  for (std::size_t d = 0; d < w.size(); ++d) {
    if (d == axis) continue;
    order.push_back(static_cast<std::int64_t>(d));
    labels += b[d];
  }
  TESSERA_TRY(const ValueId turned, e.add("transpose", {node.inputs[1]}, {{"perm", order}}));
  Shape column(w.size(), 1);
  column[0] = w[axis];
  TESSERA_TRY(const ValueId g, e.add("reshape", {gate->g}, {{"shape", column}}));
  TESSERA_TRY(const ValueId scaled, e.add("mul", {turned, g}));
  ValueId x = gate->x;
  if (const Shape shape = e.shape(node.inputs[0]); e.shape(x) != shape) {
    TESSERA_TRY(x, e.add("reshape", {x}, {{"shape", shape}}));
  }
  Attrs attrs = node.attrs;
  attrs.set("b", labels);
  return e.add("contract", {x, scaled}, std::move(attrs));
}

}  // namespace

Result<bool> fold_gates(Graph& graph, const PassOptions& options) {
  if (!options.allow_reassociation) return false;
  return Editor(graph).rewrite([&](Editor& e, const Node& node) { return fold(e, node, options); });
}

}  // namespace tessera::graph
