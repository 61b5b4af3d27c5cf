// Whether weights stay as narrow in memory as the model has them.
#pragma once

#include <optional>
#include <vector>

#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/frontend/graph/passes/product_sizes.h"

namespace tessera::graph {

// The products that read `id` as weights, directly or transposed; nullopt where something else
// reads it, or an element of it twice.
std::optional<std::vector<ProductSizes>> products_of_weights(const Graph& graph, const Uses& uses,
                                                             ValueId id);

// What was decided for weights that these products read, of so many bytes for each element, which
// take `unpacking` operations each to widen and are then multiplied `speedup` times as fast as wide
// ones. Narrow is preferred where that and reading less of memory saves more time than widening
// takes.
Result<bool> stays_narrow(const std::vector<ProductSizes>& products, double bytes, double unpacking,
                          const PassOptions& options, double speedup = 1);

// Whether products with what the node unpacks may round what they multiply, and better do.
bool rounds(const Node& node, const PassOptions& options);

// Whether the node widens constants, and the constant that it gives.
bool unpacks_constants(const Graph& graph, const Node& node);
Result<HostTensor> widened(const Graph& graph, const Node& node, const PassOptions& options);

}  // namespace tessera::graph
