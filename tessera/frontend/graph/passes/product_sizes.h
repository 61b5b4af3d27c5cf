// How many rows, columns and terms a contraction with weights has.
#pragma once

#include <optional>

#include "tessera/frontend/graph/op.h"

namespace tessera::graph {

struct ProductSizes {
  std::int64_t rows = 0, columns = 0, depth = 0;
};

// Of a contraction whose operand `weights` holds them; nullopt where the result has labels of both
// operands, which makes it several products, or where parts of them are read.
inline std::optional<ProductSizes> product_sizes(const Graph& graph, const Node& node,
                                                 std::size_t weights) {
  if (!node.op->is(fact::kContracts) || node.attrs.has("a_starts") || node.attrs.has("b_starts"))
    return std::nullopt;
  const std::string& x = node.attrs.word(weights == 0 ? "b" : "a");
  const std::string& w = node.attrs.word(weights == 0 ? "a" : "b");
  const std::string& out = node.attrs.word("out");
  const Shape &x_shape = graph.shape(node.inputs[1 - weights]),
              &w_shape = graph.shape(node.inputs[weights]);
  ProductSizes p{1, 1, 1};
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (w.find(x[d]) != std::string::npos) continue;
    if (out.find(x[d]) == std::string::npos) return std::nullopt;
    p.rows *= x_shape[d];
  }
  for (std::size_t d = 0; d < w.size(); ++d) {
    const bool summed = out.find(w[d]) == std::string::npos;
    const bool shared = x.find(w[d]) != std::string::npos;
    if (summed != shared) return std::nullopt;
    (summed ? p.depth : p.columns) *= w_shape[d];
  }
  return p;
}

}  // namespace tessera::graph
