#include "tessera/frontend/graph/graph.h"

#include <algorithm>

#include "tessera/frontend/graph/op.h"
#include "tessera/support/check.h"

namespace tessera::graph {
namespace {

template <class T>
const T& attr_as(const std::map<std::string, AttrValue>& map, const std::string& name) {
  const auto it = map.find(name);
  TESSERA_CHECK(it != map.end(), "attribute {} is missing", name);
  const T* value = std::get_if<T>(&it->second);
  TESSERA_CHECK(value != nullptr, "attribute {} has another kind", name);
  return *value;
}

bool valid(const Graph& graph, ValueId id) {
  return id >= 0 && static_cast<std::size_t>(id) < graph.values.size();
}

Error node_error(const Node& node, const std::string& reason) {
  return make_error(ErrorCode::kInvalidArgument, "{} (from {}): {}", node.op ? node.op->name : "?",
                    node.origin.empty() ? "a pass" : node.origin, reason);
}

Result<void> verify_node(const Graph& graph, const Node& node, std::vector<bool>& defined) {
  if (!node.op) return node_error(node, "no operator");
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    if (!valid(graph, id)) return node_error(node, "input id out of range");
    if (!defined[static_cast<std::size_t>(id)]) {
      return node_error(node, fmt::format("reads {} before it is computed", graph.value(id).name));
    }
  }
  const auto types = node.op->infer(view(graph, node));
  if (!types) return types.error().with_context(node.op->name);
  if (types->size() != node.outputs.size()) {
    return node_error(
        node, fmt::format("has {} outputs, its operator {}", node.outputs.size(), types->size()));
  }
  for (std::size_t i = 0; i < types->size(); ++i) {
    const ValueId id = node.outputs[i];
    if (!valid(graph, id)) return node_error(node, "output id out of range");
    if (defined[static_cast<std::size_t>(id)]) {
      return node_error(node, fmt::format("computes {} a second time", graph.value(id).name));
    }
    defined[static_cast<std::size_t>(id)] = true;
    if (!(graph.type(id) == (*types)[i])) {
      return node_error(node,
                        fmt::format("{} is declared {} but computed as {}", graph.value(id).name,
                                    to_text(graph.type(id)), to_text((*types)[i])));
    }
  }
  return {};
}

}  // namespace

std::int64_t Attrs::integer(const std::string& name) const {
  return attr_as<std::int64_t>(map_, name);
}
std::int64_t Attrs::integer(const std::string& name, std::int64_t absent) const {
  return has(name) ? integer(name) : absent;
}
double Attrs::number(const std::string& name) const { return attr_as<double>(map_, name); }
double Attrs::number(const std::string& name, double absent) const {
  return has(name) ? number(name) : absent;
}
const std::string& Attrs::word(const std::string& name) const {
  return attr_as<std::string>(map_, name);
}
const std::vector<std::int64_t>& Attrs::integers(const std::string& name) const {
  return attr_as<std::vector<std::int64_t>>(map_, name);
}
DType Attrs::dtype(const std::string& name) const {
  const auto t = dtype_from_text(word(name));
  TESSERA_CHECK(t.has_value(), "attribute {} is not an element type: {}", name, word(name));
  return *t;
}

const HostTensor* Graph::constant(ValueId id) const {
  return id != kNoValue && value(id).is_constant ? &value(id).constant : nullptr;
}

ValueId Graph::add_value(std::string name_hint, TensorType type) {
  const auto id = static_cast<ValueId>(values.size());
  Value v;
  v.name = name_hint.empty() ? fmt::format("v{}", id) : std::move(name_hint);
  v.type = std::move(type);
  values.push_back(std::move(v));
  return id;
}

ValueId Graph::add_constant(std::string name_hint, HostTensor tensor) {
  const ValueId id =
      add_value(name_hint.empty() ? fmt::format("c{}", values.size()) : std::move(name_hint),
                {tensor.dtype(), tensor.shape()});
  value(id).is_constant = true;
  value(id).constant = std::move(tensor);
  return id;
}

Uses find_uses(const Graph& graph) {
  Uses uses;
  uses.producer.assign(graph.values.size(), -1);
  uses.readers.resize(graph.values.size());
  uses.is_output.assign(graph.values.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto index = static_cast<std::int32_t>(n);
    for (const ValueId id : graph.nodes[n].inputs) {
      if (id != kNoValue) uses.readers[static_cast<std::size_t>(id)].push_back(index);
    }
    for (const ValueId id : graph.nodes[n].outputs) {
      uses.producer[static_cast<std::size_t>(id)] = index;
    }
  }
  for (const ValueId id : graph.outputs) uses.is_output[static_cast<std::size_t>(id)] = true;
  return uses;
}

Result<void> verify(const Graph& graph) {
  std::vector<bool> defined(graph.values.size(), false);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    defined[i] = v.is_constant;
    if (v.is_constant && !(v.type == TensorType{v.constant.dtype(), v.constant.shape()})) {
      return make_error(ErrorCode::kInvalidArgument, "constant {} is declared {} but holds {}",
                        v.name, to_text(v.type),
                        to_text(TensorType{v.constant.dtype(), v.constant.shape()}));
    }
  }
  for (const ValueId id : graph.inputs) {
    if (!valid(graph, id)) {
      return make_error(ErrorCode::kInvalidArgument, "graph input id {} out of range", id);
    }
    defined[static_cast<std::size_t>(id)] = true;
  }
  for (const Node& node : graph.nodes) TESSERA_DO(verify_node(graph, node, defined));
  if (graph.output_names.size() != graph.outputs.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{} outputs but {} names", graph.outputs.size(),
                      graph.output_names.size());
  }
  for (const ValueId id : graph.outputs) {
    if (!valid(graph, id) || !defined[static_cast<std::size_t>(id)]) {
      return make_error(ErrorCode::kInvalidArgument, "graph output id {} is not computed", id);
    }
  }
  return {};
}

void compact(Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  for (const ValueId id : graph.outputs) needed[static_cast<std::size_t>(id)] = true;
  std::vector<Node> kept;
  for (auto it = graph.nodes.rbegin(); it != graph.nodes.rend(); ++it) {
    const bool used = std::any_of(it->outputs.begin(), it->outputs.end(),
                                  [&](ValueId id) { return needed[static_cast<std::size_t>(id)]; });
    if (!used) continue;
    for (const ValueId id : it->inputs) {
      if (id != kNoValue) needed[static_cast<std::size_t>(id)] = true;
    }
    for (const ValueId id : it->outputs) needed[static_cast<std::size_t>(id)] = true;
    kept.push_back(std::move(*it));
  }
  std::reverse(kept.begin(), kept.end());
  for (const ValueId id : graph.inputs) needed[static_cast<std::size_t>(id)] = true;

  std::vector<ValueId> renamed(graph.values.size(), kNoValue);
  std::vector<Value> values;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (!needed[i]) continue;
    renamed[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[i]));
  }
  const auto rename = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) {
      if (id != kNoValue) id = renamed[static_cast<std::size_t>(id)];
    }
  };
  for (Node& node : kept) {
    rename(node.inputs);
    rename(node.outputs);
  }
  rename(graph.inputs);
  rename(graph.outputs);
  graph.values = std::move(values);
  graph.nodes = std::move(kept);
}

}  // namespace tessera::graph
