// Convolutions compute channels last unless it was decided otherwise; the other nodes choose by a
// minimum cut, so that transposes remain where the network meets what knows its layout only: graph
// inputs and outputs, reshapes that mix channels with positions. Pools and concatenations may be
// decided too, before the cut chooses for the rest.
#include <string_view>

#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/graph/passes/layout_choice.h"

namespace tessera::graph {
namespace {

bool has_own_layout(const Node& node) {
  return node.op->is(fact::kImages | fact::kJoins | fact::kSamples) &&
         !node.op->is(fact::kConvolves);
}

// Asks the nodes that would be worth a decision of their own, which prefer what the cut chose.
Result<LayoutChoice> decide_others(const Graph& graph, const Orders& orders,
                                   std::vector<LayoutPin> pins, const PassOptions& options) {
  LayoutChoice choice = choose_layouts(graph, orders, pins);
  if (!options.decider) return choice;
  const plan::CostGraph costs = layout_costs(graph, orders, pins);
  bool changed = false;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    // Node 0 of the costs stands for the surroundings.
    if (!has_own_layout(graph.nodes[n]) || costs.legal_values(n + 1).size() < 2) continue;
    const std::string key = "layout " + name_in_plan(graph, graph.nodes[n]);
    const plan::Point point = plan::make_point(plan::PointKind::kLayout, key,
                                               choice.second[n] ? plan::kLast : plan::kFirst);
    TESSERA_TRY(const std::int32_t value, options.decider->decide(point));
    pins[n] = point.label(value) == plan::kLast ? LayoutPin::kSecond : LayoutPin::kFirst;
    changed = changed || value != point.preferred;
  }
  return changed ? choose_layouts(graph, orders, pins) : choice;
}

}  // namespace

Result<bool> channels_last(Graph& graph, const PassOptions& options) {
  Orders orders(graph.values.size());
  std::vector<LayoutPin> pins(graph.nodes.size(), LayoutPin::kFree);
  bool any = false;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_channels_first(node)) continue;
    const std::string key = "layout " + name_in_plan(graph, node);
    TESSERA_TRY(const std::string layout,
                decide(options, plan::make_point(plan::PointKind::kLayout, key, plan::kLast)));
    pins[n] = layout == plan::kLast ? LayoutPin::kSecond : LayoutPin::kFirst;
    if (pins[n] == LayoutPin::kFirst) continue;
    const Permutation last = channels_last_order(graph.shape(node.outputs[0]).size());
    if (!graph.constant(node.inputs[0])) orders[static_cast<std::size_t>(node.inputs[0])] = last;
    orders[static_cast<std::size_t>(node.outputs[0])] = last;
    any = true;
  }
  if (!any) return false;
  spread_orders(graph, find_uses(graph), orders);
  TESSERA_TRY(const LayoutChoice choice, decide_others(graph, orders, std::move(pins), options));
  TESSERA_DO(apply_layouts(graph, orders, choice));
  return true;
}

}  // namespace tessera::graph
