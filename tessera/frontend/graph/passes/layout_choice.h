// Chooses for every node whether it computes in its values' second order, so that fewest bytes are
// transposed, and rewrites the graph accordingly.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/frontend/graph/passes/layout_orders.h"
#include "tessera/frontend/plan/costs.h"

namespace tessera::graph {

// What was decided about a node before.
enum class LayoutPin : std::uint8_t { kFree, kFirst, kSecond };

struct LayoutChoice {
  std::vector<bool> second;  // by node
  std::int64_t bytes = 0;    // transposed then
};

// The costs of both orders: one node for each of the graph's (by the name of its first output)
// behind one that stands for what has the first order only, one edge for each value with a second
// order. Bytes. `pins` by node.
plan::CostGraph layout_costs(const Graph& graph, const Orders& orders,
                             const std::vector<LayoutPin>& pins);

// Exact: the cheapest values of layout_costs.
LayoutChoice choose_layouts(const Graph& graph, const Orders& orders,
                            const std::vector<LayoutPin>& pins);
Result<void> apply_layouts(Graph& graph, const Orders& orders, const LayoutChoice& choice);

// Bytes that the graph's transposes move; those that only move axes of size 1 move none.
std::int64_t transposed_bytes(const Graph& graph);

}  // namespace tessera::graph
