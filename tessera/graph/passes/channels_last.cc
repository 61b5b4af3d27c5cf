// Convolutions compute channels last unless it was decided otherwise; the other nodes choose by a
// minimum cut, so that transposes remain where the network meets what knows its layout only: graph
// inputs and outputs, reshapes that mix channels with positions.
#include "tessera/graph/passes/decide.h"
#include "tessera/graph/passes/layout_choice.h"

namespace tessera::graph {

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
  TESSERA_DO(apply_layouts(graph, orders, choose_layouts(graph, orders, pins)));
  return true;
}

}  // namespace tessera::graph
