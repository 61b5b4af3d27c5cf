#include <string_view>

#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/frontend/graph/passes/permutation.h"

namespace tessera::graph {
namespace {

// Labels of x, given those of transpose(x, perm).
std::string before_transpose(const std::string& labels, const Permutation& perm) {
  std::string out = labels;
  for (std::size_t i = 0; i < perm.size(); ++i) out[static_cast<std::size_t>(perm[i])] = labels[i];
  return out;
}

std::string behind_transpose(const std::string& labels, const Permutation& perm) {
  std::string out;
  for (const std::int64_t p : perm) out += labels[static_cast<std::size_t>(p)];
  return out;
}

// Other readers may keep a transpose of an operand alive; it costs no more than before.
Result<ValueId> absorb_operands(Editor& e, const Node& contract) {
  std::vector<ValueId> inputs = contract.inputs;
  Attrs attrs = contract.attrs;
  bool changed = false;
  for (std::size_t i = 0; i < 2; ++i) {
    const Node* t = e.producer(inputs[i], "transpose");
    if (!t) continue;
    const char* name = i == 0 ? "a" : "b";
    attrs.set(name, before_transpose(attrs.word(name), t->attrs.integers("perm")));
    inputs[i] = t->inputs[0];
    changed = true;
  }
  return changed ? e.add("contract", inputs, attrs) : kNoValue;
}

Result<ValueId> absorb_result(Editor& e, const Node& transpose) {
  const Node* contract = e.producer(transpose.inputs[0], "contract");
  if (!contract || !e.has_one_reader(transpose.inputs[0])) return kNoValue;
  Attrs attrs = contract->attrs;
  attrs.set("out", behind_transpose(attrs.word("out"), transpose.attrs.integers("perm")));
  return e.add("contract", contract->inputs, attrs);
}

}  // namespace

Result<bool> absorb_transposes(Graph& graph, const PassOptions&) {
  return Editor(graph).rewrite([](Editor& e, const Node& node) -> Result<ValueId> {
    if (node.op->is(fact::kContracts)) return absorb_operands(e, node);
    if (node.op->is(fact::kPermutes)) return absorb_result(e, node);
    return kNoValue;
  });
}

}  // namespace tessera::graph
