#include "tessera/frontend/graph/passes/layout_orders.h"

#include <algorithm>
#include <string_view>

#include "tessera/frontend/graph/passes/axis_groups.h"
#include "tessera/frontend/graph/passes/editor.h"

namespace tessera::graph {
namespace {

using Integers = std::vector<std::int64_t>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Operators whose operands and result all have the same rank and take the same order.
bool keeps_axes(const Node& node) {
  if (node.op->fusion == Fusion::kPointwise) return true;
  if (node.op->is(fact::kReduces)) return node.attrs.integer("keepdims") != 0;
  return node.op->is(fact::kKeepsAxes);
}

// Operators all of whose operands are data; of the others it is the first.
bool has_many_operands(const Node& node) {
  return node.op->fusion == Fusion::kPointwise || node.op->is(fact::kJoins);
}

// An operator that keeps_axes can compute with all its data permuted by `order`.
bool takes_order(const Graph& graph, const Node& node, const Permutation& order) {
  if (node.op->is(fact::kImages)) {
    const Permutation last = channels_last_order(order.size());
    if (node.attrs.word("layout") == "nchw") return order == last;
    // Convolutions never return to channels first.
    return !node.op->is(fact::kConvolves) && order == inverse(last);
  }
  if (std::string_view(node.op->name) == "expand")
    return graph.shape(node.inputs[0]).size() == order.size();
  if (node.op->is(fact::kNormalizes)) {
    const std::int64_t axis = node.attrs.integer("axis");
    for (std::size_t i = at(axis); i < order.size(); ++i) {
      if (order[i] != static_cast<std::int64_t>(i)) return false;
    }
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      if (graph.shape(node.inputs[i]).size() > order.size() - at(axis)) return false;
    }
  }
  return true;
}

// The order of a reduction's result without the reduced axes.
Permutation without_axes(const Permutation& order, const Integers& axes) {
  Permutation out;
  for (const std::int64_t p : order) {
    if (std::find(axes.begin(), axes.end(), p) != axes.end()) continue;
    const auto dropped = std::count_if(axes.begin(), axes.end(), [&](auto a) { return a < p; });
    out.push_back(p - dropped);
  }
  return out;
}

Integers reduced_axes(const Node& node) {
  if (node.attrs.has("axes")) return node.attrs.integers("axes");
  return {node.attrs.integer("axis")};
}

// The order of the result when the first operand has `order`; none: the node cannot follow.
std::optional<Permutation> order_behind(const Graph& graph, const Node& node,
                                        const Permutation& order) {
  if (keeps_axes(node)) {
    if (!takes_order(graph, node, order)) return std::nullopt;
    return order;
  }
  if (node.op->is(fact::kReduces)) return without_axes(order, reduced_axes(node));
  if (node.op->is(fact::kReshapes)) {
    return order_through_reshape(graph.shape(node.inputs[0]), graph.shape(node.outputs[0]), order);
  }
  return std::nullopt;
}

// ... of the first operand when the result has `order`.
std::optional<Permutation> order_before(const Graph& graph, const Node& node,
                                        const Permutation& order) {
  if (keeps_axes(node)) return order_behind(graph, node, order);
  if (node.op->is(fact::kReshapes)) {
    return order_through_reshape(graph.shape(node.outputs[0]), graph.shape(node.inputs[0]), order);
  }
  return std::nullopt;
}

Permutation or_identity(const Graph& graph, const Orders& orders, ValueId id) {
  const Permutation& p = orders[at(id)];
  return p.empty() ? identity_permutation(graph.shape(id).size()) : p;
}

// A flatten [n, ...] -> [n, rest] that only contractions over `rest` with constants read.
bool may_shuffle(const Graph& graph, const Node& node, const Permutation& order, const Uses& uses) {
  const Shape &from = graph.shape(node.inputs[0]), &to = graph.shape(node.outputs[0]);
  if (to.size() != 2 || from.size() < 2 || from[0] != to[0] || order[0] != 0) return false;
  const ValueId y = node.outputs[0];
  if (uses.is_output[at(y)]) return false;
  for (const std::int32_t reader : uses.readers[at(y)]) {
    const Node& contract = graph.nodes[at(reader)];
    if (!contract.op->is(fact::kContracts)) return false;
    const std::size_t side = contract.inputs[0] == y ? 0 : 1;
    if (!graph.constant(contract.inputs[1 - side])) return false;
    const char label = contract.attrs.word(side == 0 ? "a" : "b")[1];
    if (contract.attrs.word("out").find(label) != std::string::npos ||
        contract.attrs.word(side == 0 ? "b" : "a").find(label) == std::string::npos) {
      return false;
    }
  }
  return true;
}

NodeLayout transpose_layout(const Graph& graph, const Node& node, const Orders& orders) {
  const ValueId x = node.inputs[0], y = node.outputs[0];
  NodeLayout out{NodeRole::kTied, {true}};
  const std::int64_t bytes = value_bytes(graph.type(x));
  const Permutation& perm = node.attrs.integers("perm");
  const Permutation from = or_identity(graph, orders, x), to = or_identity(graph, orders, y);
  const Permutation second = compose(inverse(from), compose(perm, to));
  if (!keeps_order(graph.shape(x), perm)) out.first_cost = bytes;
  if (!keeps_order(permuted(graph.shape(x), from), second)) out.second_cost = bytes;
  return out;
}

// Operands of other orders or ranks follow the node's second order by a transpose of their own.
NodeLayout many_operand_layout(const Graph& graph, const Node& node, const Orders& orders) {
  const Permutation& order = orders[at(node.outputs[0])];
  if (order.empty() || !takes_order(graph, node, order)) return {};
  NodeLayout out{NodeRole::kTied, {}};
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) return {};
    out.tied.push_back(orders[at(id)] == order);
    if (out.tied.back() || graph.constant(id)) continue;
    if (!keeps_order(full_rank(graph.shape(id), order.size()), order)) {
      out.second_cost += value_bytes(graph.type(id));
    }
  }
  return out;
}

}  // namespace

Shape full_rank(const Shape& shape, std::size_t rank) {
  Shape out(rank - shape.size(), 1);
  out.insert(out.end(), shape.begin(), shape.end());
  return out;
}

bool is_channels_first(const Node& node) {
  return node.op->is(fact::kConvolves) && node.attrs.word("layout") == "nchw";
}

Permutation channels_last_order(std::size_t rank) {
  Permutation p = {0};
  for (std::size_t i = 2; i < rank; ++i) p.push_back(static_cast<std::int64_t>(i));
  if (rank > 1) p.push_back(1);
  return p;
}

NodeLayout node_layout(const Graph& graph, const Node& node, const Orders& orders,
                       const Uses& uses) {
  if (node.outputs.size() != 1 || node.inputs.empty()) return {};
  const ValueId y = node.outputs[0];
  if (node.op->is(fact::kContracts)) return {NodeRole::kLabelled, {}};
  if (has_many_operands(node)) return many_operand_layout(graph, node, orders);
  const ValueId x = node.inputs[0];
  if (x == kNoValue || (orders[at(x)].empty() && orders[at(y)].empty())) return {};
  if (node.op->is(fact::kPermutes)) return transpose_layout(graph, node, orders);
  NodeLayout out{NodeRole::kTied, std::vector<bool>(node.inputs.size(), false)};
  out.tied[0] = true;
  const Permutation from = or_identity(graph, orders, x);
  const Permutation to = or_identity(graph, orders, y);
  const auto behind = order_behind(graph, node, from);
  if (behind && *behind == to) return out;
  // Where a reshape puts axes of size 1 is its own choice.
  const bool reshapes = node.op->is(fact::kReshapes);
  if (behind && reshapes &&
      keeps_order(permuted(graph.shape(y), *behind), compose(inverse(*behind), to))) {
    return out;
  }
  if (!reshapes || !orders[at(y)].empty() || !may_shuffle(graph, node, from, uses)) return {};
  out.shuffles = true;
  return out;
}

void spread_orders(const Graph& graph, const Uses& uses, Orders& orders) {
  std::vector<ValueId> work;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (!orders[i].empty()) work.push_back(static_cast<ValueId>(i));
  }
  const auto give = [&](ValueId id, const Permutation& order) {
    if (id == kNoValue || graph.constant(id) || !orders[at(id)].empty()) return;
    if (graph.shape(id).size() != order.size() || is_identity(order)) return;
    orders[at(id)] = order;
    work.push_back(id);
  };
  for (std::size_t next = 0; next < work.size(); ++next) {
    const ValueId v = work[next];
    const Permutation order = orders[at(v)];
    std::vector<std::int32_t> nodes = uses.readers[at(v)];
    if (uses.producer[at(v)] >= 0) nodes.push_back(uses.producer[at(v)]);
    for (const std::int32_t n : nodes) {
      const Node& node = graph.nodes[at(n)];
      if (node.outputs.size() != 1) continue;
      const ValueId y = node.outputs[0];
      if (has_many_operands(node)) {
        if (graph.shape(y).size() != order.size() || !takes_order(graph, node, order)) continue;
        give(y, order);
        if (orders[at(y)] != order) continue;
        for (const ValueId id : node.inputs) give(id, order);
        continue;
      }
      const ValueId x = node.inputs.empty() ? kNoValue : node.inputs[0];
      if (v == y) {
        if (const auto before = order_before(graph, node, order)) give(x, *before);
      } else if (v == x) {
        if (const auto behind = order_behind(graph, node, order)) give(y, *behind);
      }
    }
  }
}

Attrs second_attrs(const Graph& graph, const Node& node, const Orders& orders) {
  Attrs attrs = node.attrs;
  const Permutation to = or_identity(graph, orders, node.outputs[0]);
  const Permutation from = or_identity(graph, orders, node.inputs[0]);
  if (node.op->is(fact::kPermutes)) {
    attrs.set("perm", compose(inverse(from), compose(node.attrs.integers("perm"), to)));
    return attrs;
  }
  if (node.op->is(fact::kReshapes)) {
    attrs.set("shape", permuted(graph.shape(node.outputs[0]), to));
    return attrs;
  }
  // Where operands may lack the order, the result has it.
  const Permutation& order = has_many_operands(node) ? to : from;
  if (node.op->is(fact::kImages)) {
    attrs.set("layout", std::string(node.attrs.word("layout") == "nchw" ? "nhwc" : "nchw"));
  } else if (node.op->is(fact::kAxis)) {
    attrs.set("axis", inverse(order)[at(node.attrs.integer("axis"))]);
  } else if (node.op->is(fact::kAxes)) {
    Integers axes;
    for (const std::int64_t a : node.attrs.integers("axes")) axes.push_back(inverse(order)[at(a)]);
    // The tables of samples stay with their axes, so those are not sorted.
    if (node.op->is(fact::kReduces)) std::sort(axes.begin(), axes.end());
    attrs.set("axes", axes);
  } else if (node.op->is(fact::kPerAxis)) {
    for (const char* name : {"starts", "steps", "sizes", "before", "after", "shape", "factors"}) {
      if (attrs.has(name)) attrs.set(name, permuted(node.attrs.integers(name), order));
    }
  }
  return attrs;
}

}  // namespace tessera::graph
