#include "tessera/backend/exec/index_checks.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "tessera/frontend/graph/op.h"

namespace tessera::exec {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// The number of the graph input that `id` has the elements of, in any order and number; with
// `tuples` in the same one, and as long.
std::optional<std::size_t> input_behind(const Graph& graph, const graph::Uses& uses, ValueId id,
                                        bool tuples) {
  for (;;) {
    const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), id);
    if (input != graph.inputs.end()) return static_cast<std::size_t>(input - graph.inputs.begin());
    const std::int32_t producer = uses.producer[static_cast<std::size_t>(id)];
    if (producer < 0) return std::nullopt;
    const Node& node = graph.nodes[static_cast<std::size_t>(producer)];
    const std::string_view op = node.op->name;
    const ValueId from = node.inputs.empty() ? graph::kNoValue : node.inputs[0];
    if (from == graph::kNoValue) return std::nullopt;
    const Shape &before = graph.shape(from), &after = graph.shape(id);
    const bool moves = node.op->is(graph::fact::kPermutes) || op == "expand";
    const bool reshapes = node.op->is(graph::fact::kReshapes) &&
                          (!tuples || (!before.empty() && before.back() == after.back()));
    if (!(op == "cast" || reshapes || (moves && !tuples))) return std::nullopt;
    id = from;
  }
}

// The sizes that the indices of a node are for; empty: the node has none.
std::vector<std::int64_t> indexed_sizes(const Graph& graph, const Node& node) {
  const std::string_view op = node.op->name;
  if (node.op->is(graph::fact::kIndexes)) {
    return {graph.shape(node.inputs[0])[static_cast<std::size_t>(node.attrs.integer("axis"))]};
  }
  if (op != "gather_nd") return {};
  const Shape& x = graph.shape(node.inputs[0]);
  const auto first = x.begin() + node.attrs.integer("batch_dims", 0);
  return {first, first + graph.shape(node.inputs[1]).back()};
}

template <class T>
Result<void> check(const IndexCheck& check, std::int64_t count, const std::string& name,
                   const T* values) {
  const auto columns = static_cast<std::int64_t>(check.sizes.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t n = check.sizes[static_cast<std::size_t>(columns == 1 ? 0 : i % columns)];
    if (values[i] >= -n && values[i] < n) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: index {} (element {} of input '{}') is outside a dimension of size {}",
                      check.node, values[i], i, name, n);
  }
  return {};
}

}  // namespace

std::vector<IndexCheck> find_index_checks(const Graph& graph) {
  std::vector<IndexCheck> out;
  const graph::Uses uses = find_uses(graph);
  for (const Node& node : graph.nodes) {
    std::vector<std::int64_t> sizes = indexed_sizes(graph, node);
    if (sizes.empty() || graph.constant(node.inputs[1]) != nullptr) continue;
    const auto input = input_behind(graph, uses, node.inputs[1], sizes.size() > 1);
    if (!input) continue;
    const DType dtype = graph.type(graph.inputs[*input]).dtype;
    if (dtype != DType::kI64 && dtype != DType::kI32) continue;
    out.push_back({*input, std::move(sizes), node.origin});
  }
  return out;
}

Result<void> check_indices(const IndexCheck& what, const graph::TensorType& type,
                           const std::string& name, const void* data) {
  const std::int64_t count = elements(type.shape);
  if (type.dtype == DType::kI32)
    return check(what, count, name, static_cast<const std::int32_t*>(data));
  return check(what, count, name, static_cast<const std::int64_t*>(data));
}

}  // namespace tessera::exec
