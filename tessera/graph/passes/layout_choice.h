// Chooses for every node whether it computes in its values' second order, so that fewest bytes are
// transposed, and rewrites the graph accordingly.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/graph/passes/layout_orders.h"

namespace tessera::graph {

struct LayoutChoice {
  std::vector<bool> second;  // by node
  std::int64_t bytes = 0;    // transposed then
};

// Exact: a minimum cut. `forced` nodes compute in the second order whatever it costs.
LayoutChoice choose_layouts(const Graph& graph, const Orders& orders,
                            const std::vector<bool>& forced);
Result<void> apply_layouts(Graph& graph, const Orders& orders, const LayoutChoice& choice);

// Bytes that the graph's transposes move; those that only move axes of size 1 move none.
std::int64_t transposed_bytes(const Graph& graph);

}  // namespace tessera::graph
