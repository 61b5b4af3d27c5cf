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

// What `id` has the elements of, in any order and number, one step back; with `tuples` in the same
// one, and as long. kNoValue: it is computed.
ValueId moved_from(const Graph& graph, const graph::Uses& uses, ValueId id, bool tuples) {
  const std::int32_t producer = uses.producer[static_cast<std::size_t>(id)];
  if (producer < 0) return graph::kNoValue;
  const Node& node = graph.nodes[static_cast<std::size_t>(producer)];
  const std::string_view op = node.op->name;
  const ValueId from = node.inputs.empty() ? graph::kNoValue : node.inputs[0];
  if (from == graph::kNoValue) return from;
  const Shape &before = graph.shape(from), &after = graph.shape(id);
  const bool moves = node.op->is(graph::fact::kPermutes) || op == "expand";
  const bool reshapes = node.op->is(graph::fact::kReshapes) &&
                        (!tuples || (!before.empty() && before.back() == after.back()));
  return op == "cast" || reshapes || (moves && !tuples) ? from : graph::kNoValue;
}

// The number of the graph input that `id` has the elements of.
std::optional<std::size_t> input_behind(const Graph& graph, const graph::Uses& uses, ValueId id,
                                        bool tuples) {
  for (; id != graph::kNoValue; id = moved_from(graph, uses, id, tuples)) {
    const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), id);
    if (input != graph.inputs.end()) return static_cast<std::size_t>(input - graph.inputs.begin());
  }
  return std::nullopt;
}

bool has_indices(DType type) { return type == DType::kI64 || type == DType::kI32; }

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
Result<void> check(const IndexCheck& check, std::int64_t count, const std::string& whose,
                   const T* values) {
  const auto columns = static_cast<std::int64_t>(check.sizes.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t n = check.sizes[static_cast<std::size_t>(columns == 1 ? 0 : i % columns)];
    if (values[i] >= -n && values[i] < n) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: index {} (element {} of {}) is outside a dimension of size {}",
                      check.node, values[i], i, whose, n);
  }
  return {};
}

Result<void> check(const IndexCheck& what, const graph::TensorType& type, const std::string& whose,
                   const void* data) {
  const std::int64_t count = elements(type.shape);
  if (type.dtype == DType::kI32)
    return check(what, count, whose, static_cast<const std::int32_t*>(data));
  return check(what, count, whose, static_cast<const std::int64_t*>(data));
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
    if (!has_indices(graph.type(graph.inputs[*input]).dtype)) continue;
    out.push_back({*input, std::move(sizes), node.origin});
  }
  return out;
}

std::vector<ComputedIndices> find_computed_indices(const Graph& graph, const graph::Uses& uses,
                                                   std::span<const std::int32_t> nodes,
                                                   std::span<const ValueId> read) {
  std::vector<ComputedIndices> out;
  for (const std::int32_t n : nodes) {
    const Node& node = graph.nodes[static_cast<std::size_t>(n)];
    std::vector<std::int64_t> sizes = indexed_sizes(graph, node);
    const bool tuples = sizes.size() > 1;
    if (sizes.empty()) continue;
    const auto input = input_behind(graph, uses, node.inputs[1], tuples);
    if (input && has_indices(graph.type(graph.inputs[*input]).dtype)) continue;
    ValueId id = node.inputs[1];
    while (id != graph::kNoValue && std::find(read.begin(), read.end(), id) == read.end())
      id = moved_from(graph, uses, id, tuples);
    if (id == graph::kNoValue || graph.constant(id) || !has_indices(graph.type(id).dtype)) continue;
    out.push_back({id, graph.type(id), {0, std::move(sizes), node.origin}});
  }
  return out;
}

Result<void> check_indices(const IndexCheck& what, const graph::TensorType& type,
                           const std::string& name, const void* data) {
  return check(what, type, fmt::format("input '{}'", name), data);
}

Result<void> check_indices(const ComputedIndices& indices, const void* data) {
  return check(indices.what, indices.type, "those that the model computes", data);
}

}  // namespace tessera::exec
