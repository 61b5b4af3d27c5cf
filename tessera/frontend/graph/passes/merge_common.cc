// Common subexpressions. Host operators merge too: none of the graph's operators has an effect or
// draws random numbers.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "tessera/frontend/graph/op.h"
#include "tessera/frontend/graph/passes/passes.h"

namespace tessera::graph {
namespace {

// Comparing larger constants costs more time than the shared bytes are worth.
constexpr std::size_t kSmallConstant = std::size_t{1} << 16;

std::string constant_key(const Value& v) {
  std::string key = to_text(v.type) + ":";
  key.append(static_cast<const char*>(v.constant.data()), v.constant.bytes());
  return key;
}

std::string node_key(const Node& node) {
  return fmt::format("{}({}){{{}}}", node.op->name, fmt::join(node.inputs, ","),
                     to_text(node.attrs));
}

}  // namespace

Result<bool> merge_common(Graph& graph, const PassOptions&) {
  std::vector<ValueId> same(graph.values.size());
  std::unordered_map<std::string, ValueId> constants;
  for (std::size_t i = 0; i < same.size(); ++i) {
    same[i] = static_cast<ValueId>(i);
    const Value& v = graph.values[i];
    if (!v.is_constant || v.constant.bytes() > kSmallConstant) continue;
    same[i] = constants.try_emplace(constant_key(v), same[i]).first->second;
  }
  bool changed = false;
  const auto redirect = [&](ValueId& id) {
    if (id == kNoValue || same[static_cast<std::size_t>(id)] == id) return;
    id = same[static_cast<std::size_t>(id)];
    changed = true;
  };
  std::unordered_map<std::string, const Node*> seen;
  for (Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), redirect);
    const auto [it, fresh] = seen.try_emplace(node_key(node), &node);
    if (fresh) continue;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      same[static_cast<std::size_t>(node.outputs[i])] = it->second->outputs[i];
    }
    changed = true;
  }
  std::for_each(graph.outputs.begin(), graph.outputs.end(), redirect);
  compact(graph);
  return changed;
}

}  // namespace tessera::graph
