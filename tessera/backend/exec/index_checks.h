// Indices that come from outside or that the model computes: kernels clamp them, so a wrong one is
// found before they run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/frontend/graph/graph.h"

namespace tessera::exec {

// An input of the model whose elements are indices: element i must be in [-n, n), n = sizes[i %
// sizes.size()]. Tuples of indices have several sizes.
struct IndexCheck {
  std::size_t input = 0;
  std::vector<std::int64_t> sizes;
  std::string node;  // of the model that reads by them
};

// Those of gather, gather_elements and gather_nd that are inputs of the graph, also by way of
// reshapes, transposes, expansions and casts. Inputs of i32 and i64 only.
std::vector<IndexCheck> find_index_checks(const graph::Graph& graph);

// What one kernel of the model stores and another reads as indices.
struct ComputedIndices {
  graph::ValueId value = graph::kNoValue;  // one of `read`
  graph::TensorType type;
  IndexCheck what;  // of no input
};

// Those of `nodes`, a kernel that reads `read`: of i32 and i64, neither constant nor what
// find_index_checks has. task::partition lets no kernel compute its own indices.
std::vector<ComputedIndices> find_computed_indices(const graph::Graph& graph,
                                                   const graph::Uses& uses,
                                                   std::span<const std::int32_t> nodes,
                                                   std::span<const graph::ValueId> read);

// `data` is that of the input, of this type and name. kInvalidArgument names node and index.
Result<void> check_indices(const IndexCheck& what, const graph::TensorType& type,
                           const std::string& name, const void* data);
Result<void> check_indices(const ComputedIndices& indices, const void* data);

}  // namespace tessera::exec
