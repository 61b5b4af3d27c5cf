#include "tessera/frontend/graph/passes/editor.h"

#include <algorithm>

namespace tessera::graph {
namespace {

// A folded constant larger than this, and than its inputs, would cost more to load than to compute.
constexpr std::int64_t kFoldLimit = std::int64_t{1} << 20;

}  // namespace

std::int64_t value_bytes(const TensorType& type) {
  const auto count = checked_elements(type.shape, type.dtype);
  return count ? *count * size_bytes(type.dtype) : 0;
}

Editor::Editor(Graph& graph)
    : graph_(graph), first_new_(static_cast<ValueId>(graph.values.size())) {
  const Uses uses = find_uses(graph);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    readers_.push_back(static_cast<std::int32_t>(uses.readers[i].size()));
    names_.insert(graph.values[i].name);
  }
  for (const ValueId id : graph.outputs) ++readers_[index(id)];
  old_nodes_ = std::move(graph.nodes);
  graph.nodes.clear();
  grow();
}

// Values are added by the graph; the tables by value follow.
void Editor::grow() {
  for (std::size_t i = replaced_.size(); i < graph_.values.size(); ++i) {
    replaced_.push_back(static_cast<ValueId>(i));
  }
  producers_.resize(graph_.values.size(), nullptr);
  readers_.resize(graph_.values.size(), 0);
}

std::string Editor::unique_name(const std::string& base) {
  for (std::size_t i = graph_.values.size();; ++i) {
    std::string name = fmt::format("{}{}", base, i);
    if (names_.insert(name).second) return name;
  }
}

ValueId Editor::constant(HostTensor tensor) {
  const ValueId id = graph_.add_constant(unique_name("c"), std::move(tensor));
  grow();
  return id;
}

const Node* Editor::producer(ValueId id) const {
  return id == kNoValue || index(id) >= producers_.size() ? nullptr : producers_[index(id)];
}

const Node* Editor::producer(ValueId id, std::string_view op) const {
  const Node* node = producer(id);
  return node && node->op->name == op ? node : nullptr;
}

void Editor::keep(Node node) {
  nodes_.push_back(std::move(node));
  for (const ValueId id : nodes_.back().outputs) producers_[index(id)] = &nodes_.back();
}

Result<ValueId> Editor::add(std::string_view op_name, const std::vector<ValueId>& inputs,
                            Attrs attrs) {
  const OpDef* op = find_op(op_name);
  TESSERA_CHECK(op, "there is no graph operator {}", op_name);
  grow();
  Node node{op, std::move(attrs), inputs, {}, origin_};
  std::vector<const HostTensor*> constants;
  std::int64_t constant_bytes = 0;
  bool all_constant = true;
  for (const ValueId id : inputs) {
    constants.push_back(graph_.constant(id));
    all_constant = all_constant && (id == kNoValue || constants.back());
    if (constants.back()) constant_bytes += static_cast<std::int64_t>(constants.back()->bytes());
  }
  TESSERA_TRY(const std::vector<TensorType> types, op->infer(view(graph_, node)));
  TESSERA_CHECK(types.size() == 1, "{} has {} outputs", op_name, types.size());
  if (all_constant && !op->is(fact::kUnpacks) &&
      value_bytes(types[0]) <= std::max(kFoldLimit, constant_bytes)) {
    TESSERA_TRY(std::vector<HostTensor> results, evaluate_node(*op, node.attrs, constants));
    return constant(std::move(results[0]));
  }
  const ValueId id = graph_.add_value(unique_name("v"), types[0]);
  grow();
  node.outputs = {id};
  for (const ValueId input : inputs) {
    if (input != kNoValue) ++readers_[index(input)];
  }
  keep(std::move(node));
  return id;
}

void Editor::release(ValueId id) {
  if (id == kNoValue || --readers_[index(id)] > 0) return;
  const Node* node = producer(id);
  if (!node || node->outputs.size() != 1) return;
  for (const ValueId input : node->inputs) release(input);
}

void Editor::replace(const Node& node, ValueId by) {
  grow();
  const ValueId old = node.outputs[0];
  TESSERA_CHECK(graph_.type(by) == graph_.type(old), "{} of type {} replaced by a value of type {}",
                node.op->name, to_text(graph_.type(old)), to_text(graph_.type(by)));
  replaced_[index(old)] = by;
  readers_[index(by)] += readers_[index(old)];
  for (const ValueId input : node.inputs) release(input);
  // The model's name stays with the value that now stands for it.
  if (by >= first_new_ && !graph_.value(by).is_constant) {
    std::swap(graph_.value(by).name, graph_.value(old).name);
  }
}

Result<bool> Editor::rewrite(const Rule& rule) {
  bool changed = false;
  for (Node& node : old_nodes_) {
    for (ValueId& id : node.inputs) {
      if (id != kNoValue) id = replaced_[index(id)];
    }
    origin_ = node.origin;
    ValueId by = kNoValue;
    if (node.outputs.size() == 1) {
      TESSERA_TRY(by, rule(*this, node));
    }
    if (by == kNoValue) {
      keep(std::move(node));
      continue;
    }
    replace(node, by);
    changed = true;
  }
  for (ValueId& id : graph_.outputs) id = replaced_[index(id)];
  graph_.nodes.assign(std::make_move_iterator(nodes_.begin()),
                      std::make_move_iterator(nodes_.end()));
  return changed;
}

}  // namespace tessera::graph
