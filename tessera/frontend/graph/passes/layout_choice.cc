#include "tessera/frontend/graph/passes/layout_choice.h"

#include <string_view>
#include <unordered_map>

#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/support/planted.h"

namespace tessera::graph {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<NodeLayout> all_layouts(const Graph& graph, const Orders& orders, const Uses& uses) {
  std::vector<NodeLayout> layouts;
  for (const Node& node : graph.nodes) layouts.push_back(node_layout(graph, node, orders, uses));
  return layouts;
}

// The first node of layout_costs.
constexpr std::size_t kFirstOrder = 0;
constexpr std::int64_t kNever = plan::CostGraph::kNever;

// The nodes that read `v` in their own order; contracts read any.
std::vector<std::size_t> bound_readers(const Graph& graph, const Uses& uses, ValueId v,
                                       const std::vector<NodeLayout>& layouts) {
  std::vector<std::size_t> readers;
  if (uses.is_output[at(v)]) readers.push_back(kFirstOrder);
  for (const std::int32_t n : uses.readers[at(v)]) {
    const NodeLayout& layout = layouts[at(n)];
    if (layout.role == NodeRole::kLabelled) continue;
    const Node& node = graph.nodes[at(n)];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != v) continue;
      const bool tied = layout.role == NodeRole::kTied && layout.tied[i];
      readers.push_back(tied ? at(n) + 1 : kFirstOrder);
    }
  }
  return readers;
}

std::vector<std::int64_t> node_costs(const NodeLayout& layout, LayoutPin pin, bool one_order) {
  if (layout.role == NodeRole::kFixed) return {0, kNever};
  // A contract whose result has one order computes that.
  const bool first = pin == LayoutPin::kFirst || (layout.role == NodeRole::kLabelled && one_order);
  return {pin == LayoutPin::kSecond ? kNever : layout.first_cost,
          first ? kNever : layout.second_cost};
}

}  // namespace

plan::CostGraph layout_costs(const Graph& graph, const Orders& orders,
                             const std::vector<LayoutPin>& pins) {
  const Uses uses = find_uses(graph);
  const std::vector<NodeLayout> layouts = all_layouts(graph, orders, uses);
  plan::CostGraph out;
  const auto add = [&](std::string name, std::vector<std::int64_t> costs) {
    out.add(plan::CostGraph::Node{std::move(name), {"first", "second"}, std::move(costs)});
  };
  add("", {0, kNever});
  for (std::size_t n = 0; n < layouts.size(); ++n) {
    const ValueId y = graph.nodes[n].outputs[0];
    add(graph.value(y).name, node_costs(layouts[n], pins[n], orders[at(y)].empty()));
  }
  for (std::size_t v = 0; v < orders.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (orders[v].empty() || keeps_order(graph.shape(id), orders[v])) continue;
    const std::int32_t n = uses.producer[v];
    out.add(plan::CostGraph::Edge{n < 0 ? kFirstOrder : at(n) + 1,
                                  bound_readers(graph, uses, id, layouts),
                                  value_bytes(graph.type(id))});
  }
  return out;
}

LayoutChoice choose_layouts(const Graph& graph, const Orders& orders,
                            const std::vector<LayoutPin>& pins) {
  const plan::CheapestValues cheapest = plan::cheapest_values(layout_costs(graph, orders, pins));
  LayoutChoice out;
  out.bytes = cheapest.cost;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    out.second.push_back(cheapest.values[n + 1] == 1);
  }
  const std::vector<NodeLayout> layouts = all_layouts(graph, orders, find_uses(graph));
  // Transposes outside the problem cost what they did.
  for (std::size_t n = 0; n < layouts.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (layouts[n].role != NodeRole::kFixed || !node.op->is(fact::kPermutes)) continue;
    if (!keeps_order(graph.shape(node.inputs[0]), node.attrs.integers("perm"))) {
      out.bytes += value_bytes(graph.type(node.inputs[0]));
    }
  }
  return out;
}

std::int64_t transposed_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Node& node : graph.nodes) {
    if (!node.op->is(fact::kPermutes)) continue;
    if (keeps_order(graph.shape(node.inputs[0]), node.attrs.integers("perm"))) continue;
    bytes += value_bytes(graph.type(node.inputs[0]));
  }
  return bytes;
}

namespace {

class Applier {
 public:
  Applier(const Graph& graph, const Orders& orders, const LayoutChoice& choice)
      : before_(graph), orders_(orders), choice_(choice) {
    const Uses uses = find_uses(before_);
    layouts_ = all_layouts(before_, orders_, uses);
    for (std::size_t n = 0; n < before_.nodes.size(); ++n) {
      if (before_.nodes[n].outputs.size() == 1) index_[before_.nodes[n].outputs[0]] = n;
    }
  }

  Result<ValueId> rewrite(Editor& e, const Node& node) {
    const std::size_t n = index_.at(node.outputs[0]);
    const Node& old = before_.nodes[n];
    if (layouts_[n].role == NodeRole::kLabelled) return contract(e, node, old, n);
    if (!choice_.second[n]) return kNoValue;
    TESSERA_CHECK(layouts_[n].role == NodeRole::kTied, "{} has one order", old.op->name);
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < old.inputs.size(); ++i) {
      TESSERA_TRY(const ValueId id, operand(e, node, old, n, i));
      inputs.push_back(id);
    }
    if (layouts_[n].shuffles) {
      shuffled_[old.outputs[0]] = old.inputs[0];
      return e.add("reshape", inputs, old.attrs);
    }
    const Attrs attrs = second_attrs(before_, old, orders_);
    if (old.op->is(fact::kPermutes)) {
      TESSERA_TRY(const ValueId moved, transpose(e, inputs[0], attrs.integers("perm")));
      return record(e, old.outputs[0], moved);
    }
    TESSERA_TRY(const ValueId y, e.add(old.op->name, inputs, attrs));
    return record(e, old.outputs[0], y);
  }

 private:
  static Result<ValueId> transpose(Editor& e, ValueId x, const Permutation& perm) {
    if (is_identity(perm)) return x;
    if (keeps_order(e.shape(x), perm)) {
      return e.add("reshape", {x}, {{"shape", permuted(e.shape(x), perm)}});
    }
    return e.add("transpose", {x}, {{"perm", perm}});
  }

  // Notes that `y` is `old` in its second order; returns it in the first, which compaction drops
  // again when nothing reads it.
  Result<ValueId> record(Editor& e, ValueId old, ValueId y) {
    const Permutation& order = orders_[at(old)];
    if (order.empty()) return y;
    second_[old] = y;
    return transpose(e, y, inverse(order));
  }

  // `old` in its second order; `now` is its first.
  Result<ValueId> second(Editor& e, ValueId old, ValueId now) {
    if (orders_[at(old)].empty()) return now;
    if (const auto it = second_.find(old); it != second_.end()) return it->second;
    TESSERA_TRY(const ValueId id, transpose(e, now, orders_[at(old)]));
    second_[old] = id;
    return id;
  }

  Result<ValueId> operand(Editor& e, const Node& node, const Node& old, std::size_t n,
                          std::size_t i) {
    const ValueId now = node.inputs[i];
    if (layouts_[n].tied[i]) return second(e, old.inputs[i], now);
    const bool follows = node.op->fusion == Fusion::kPointwise || node.op->is(fact::kJoins);
    if (now == kNoValue || !follows) return now;
    const Permutation& order = orders_[at(old.outputs[0])];
    if (elements(e.shape(now)) == 1 && node.op->fusion == Fusion::kPointwise) return now;
    if (planted(4) && e.shape(now).size() < order.size()) return now;
    const Shape full = full_rank(e.shape(now), order.size());
    ValueId x = now;
    if (full != e.shape(now)) {
      TESSERA_TRY(x, e.add("reshape", {now}, {{"shape", full}}));
    }
    return transpose(e, x, order);
  }

  // Labels follow the operands as they are at hand; weights follow a shuffled operand.
  Result<ValueId> contract(Editor& e, const Node& node, const Node& old, std::size_t n) {
    Attrs attrs = old.attrs;
    std::vector<ValueId> inputs = node.inputs;
    bool changed = false;
    for (std::size_t i = 0; i < 2; ++i) {
      const char* name = i == 0 ? "a" : "b";
      const ValueId v = old.inputs[i];
      if (const auto it = shuffled_.find(v); it != shuffled_.end()) {
        TESSERA_TRY(inputs[1 - i],
                    shuffle_weights(e, inputs[1 - i], it->second,
                                    old.attrs.word(i == 0 ? "b" : "a"), old.attrs.word(name)[1]));
        changed = true;
      }
      const auto producer = index_.find(v);
      if (producer == index_.end() || !choice_.second[producer->second]) continue;
      if (orders_[at(v)].empty()) continue;
      inputs[i] = second_.at(v);
      attrs.set(name, permuted_text(old.attrs.word(name), orders_[at(v)]));
      changed = true;
    }
    if (!choice_.second[n]) return changed ? e.add("contract", inputs, attrs) : kNoValue;
    attrs.set("out", permuted_text(old.attrs.word("out"), orders_[at(old.outputs[0])]));
    TESSERA_TRY(const ValueId y, e.add("contract", inputs, attrs));
    return record(e, old.outputs[0], y);
  }

  // The axis `label` of `w` runs over the flattened axes 1, 2, ... of `map` in its first order;
  // afterwards in its second.
  Result<ValueId> shuffle_weights(Editor& e, ValueId w, ValueId map, const std::string& labels,
                                  char label) {
    const Shape& image = before_.shape(map);
    const Permutation& order = orders_[at(map)];
    const std::size_t axis = labels.find(label), rest = image.size() - 1;
    const Shape shape = e.shape(w);
    Shape split;
    Permutation perm;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto base = static_cast<std::int64_t>(split.size());
      if (d != axis) {
        split.push_back(shape[d]);
        perm.push_back(base);
        continue;
      }
      split.insert(split.end(), image.begin() + 1, image.end());
      for (std::size_t k = 0; k < rest; ++k) perm.push_back(base + order[k + 1] - 1);
    }
    TESSERA_TRY(const ValueId parts, e.add("reshape", {w}, {{"shape", split}}));
    TESSERA_TRY(const ValueId moved, e.add("transpose", {parts}, {{"perm", perm}}));
    return e.add("reshape", {moved}, {{"shape", shape}});
  }

  static std::string permuted_text(const std::string& labels, const Permutation& perm) {
    std::string out;
    for (const std::int64_t p : perm) out += labels[at(p)];
    return out;
  }

  const Graph before_;  // constants are shared
  const Orders& orders_;
  const LayoutChoice& choice_;
  std::vector<NodeLayout> layouts_;
  std::unordered_map<ValueId, std::size_t> index_;  // the node that computes a value
  std::unordered_map<ValueId, ValueId> second_;     // by value of before_
  std::unordered_map<ValueId, ValueId> shuffled_;   // flattened value: the map it flattens
};

}  // namespace

Result<void> apply_layouts(Graph& graph, const Orders& orders, const LayoutChoice& choice) {
  Applier applier(graph, orders, choice);
  const auto done =
      Editor(graph).rewrite([&](Editor& e, const Node& node) { return applier.rewrite(e, node); });
  if (!done) return done.error();
  compact(graph);
  return {};
}

}  // namespace tessera::graph
