// Every operator of the graph: the families, joined and sorted by name.
#include <algorithm>
#include <string_view>

#include "tessera/frontend/graph/ops/ops.h"

namespace tessera::graph {
namespace {

std::vector<OpDef> join_families() {
  std::vector<OpDef> all;
  for (const auto family :
       {pointwise_ops, movement_ops, indexing_ops, host_ops, contraction_ops, convolution_ops,
        window_ops, sampling_ops, reduction_ops, normalization_ops, storage_ops}) {
    for (const OpDef& op : family()) all.push_back(op);
  }
  std::sort(all.begin(), all.end(), [](const OpDef& a, const OpDef& b) {
    return std::string_view(a.name) < std::string_view(b.name);
  });
  for (std::size_t i = 1; i < all.size(); ++i) {
    TESSERA_CHECK(std::string_view(all[i - 1].name) != all[i].name, "operator {} has two rows",
                  all[i].name);
  }
  return all;
}

}  // namespace

const std::vector<OpDef>& op_table() {
  static const std::vector<OpDef> table = join_families();
  return table;
}

const OpDef* find_op(std::string_view name) {
  const std::vector<OpDef>& table = op_table();
  const auto it = std::lower_bound(table.begin(), table.end(), name,
                                   [](const OpDef& op, std::string_view n) { return op.name < n; });
  return it != table.end() && it->name == name ? &*it : nullptr;
}

}  // namespace tessera::graph
