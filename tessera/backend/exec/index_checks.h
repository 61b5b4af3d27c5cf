// Indices that come from outside: kernels clamp them, so a wrong one is found before they run.
#pragma once

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

// `data` is that of the input, of this type and name. kInvalidArgument names node and index.
Result<void> check_indices(const IndexCheck& what, const graph::TensorType& type,
                           const std::string& name, const void* data);

}  // namespace tessera::exec
