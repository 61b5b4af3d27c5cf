// Every convolution computes channels last; the other nodes choose by a minimum cut, so that
// transposes remain where the network meets what knows its layout only: graph inputs and outputs,
// reshapes that mix channels with positions.
#include <string_view>

#include "tessera/graph/passes/layout_choice.h"
#include "tessera/graph/passes/passes.h"

namespace tessera::graph {
namespace {

bool is_convolution(const Node& node) {
  const std::string_view op = node.op->name;
  return (op == "conv" || op == "conv_transpose") && node.attrs.word("layout") == "nchw";
}

}  // namespace

Result<bool> channels_last(Graph& graph, const PassOptions&) {
  Orders orders(graph.values.size());
  std::vector<bool> forced(graph.nodes.size(), false);
  bool any = false;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_convolution(node)) continue;
    const Permutation last = channels_last_order(graph.shape(node.outputs[0]).size());
    if (!graph.constant(node.inputs[0])) orders[static_cast<std::size_t>(node.inputs[0])] = last;
    orders[static_cast<std::size_t>(node.outputs[0])] = last;
    forced[n] = any = true;
  }
  if (!any) return false;
  spread_orders(graph, find_uses(graph), orders);
  TESSERA_DO(apply_layouts(graph, orders, choose_layouts(graph, orders, forced)));
  return true;
}

}  // namespace tessera::graph
