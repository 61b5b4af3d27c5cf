// A 1x1 convolution that became a product of matrices ends in a reshape to the image. Pointwise
// nodes behind it move in front of that reshape, so that they run in the kernel of the product.
#include <algorithm>
#include <optional>
#include <string_view>

#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/passes.h"

namespace tessera::graph {
namespace {

// The reshape [.., c] -> [..., c] of a contract's result (maybe with pointwise nodes between) that
// `id` is, or null.
const Node* sinkable(const Editor& e, ValueId id, const Shape& shape) {
  if (id == kNoValue || e.shape(id) != shape || shape.empty()) return nullptr;
  const Node* reshape = e.producer(id, "reshape");
  if (!reshape) return nullptr;
  const Shape from = e.shape(reshape->inputs[0]);
  const Node* source = e.producer(reshape->inputs[0]);
  if (!source || from.empty() || from.back() != shape.back()) return nullptr;
  const Fusion fusion = source->op->fusion;
  return fusion == Fusion::kContraction || fusion == Fusion::kPointwise ? reshape : nullptr;
}

// `shape` as it broadcasts to `from` instead of `to`; nothing when it varies in other dimensions
// than the last.
std::optional<Shape> broadcast_shape(const Shape& shape, const Shape& from, const Shape& to) {
  if (shape == to) return from;
  if (elements(shape) == 1) return Shape{};
  if (shape.back() != to.back() || elements(shape) != to.back()) return std::nullopt;
  return Shape{to.back()};
}

// The operand that `node` computes element by element, from that and numbers; kNoValue: it does
// not.
ValueId only_operand(const Editor& e, const Node& node) {
  ValueId out = kNoValue;
  if (node.op->fusion != Fusion::kPointwise) return kNoValue;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue || (e.constant_of(id) && e.shape(id).empty())) continue;
    if (out != kNoValue || e.shape(id) != e.shape(node.outputs[0])) return kNoValue;
    out = id;
  }
  return out;
}

// Whether `id` is a narrower value made wider.
bool is_widened(const Editor& e, ValueId id) {
  ValueId from = id;
  while (const Node* node = e.producer(from)) {
    from = only_operand(e, *node);
    if (from == kNoValue) return false;
    if (size_bytes(e.dtype(from)) < size_bytes(e.dtype(id))) return true;
  }
  return false;
}

// What is made wider is so behind the reshape: then its kernel stores it narrow.
Result<ValueId> reshaped(Editor& e, ValueId id, const Shape& shape) {
  if (!is_widened(e, id)) return e.add("reshape", {id}, {{"shape", shape}});
  const Node node = *e.producer(id);
  TESSERA_TRY(const ValueId from, reshaped(e, only_operand(e, node), shape));
  std::vector<ValueId> inputs = node.inputs;
  std::replace(inputs.begin(), inputs.end(), only_operand(e, node), from);
  return e.add(node.op->name, inputs, node.attrs);
}

// A depthwise convolution makes what it reads wider.
Result<ValueId> widen_behind(Editor& e, const Node& node) {
  if (!node.op->is(fact::kConvolves) || node.attrs.integer("group", 1) < 2) return kNoValue;
  const Node* reshape = e.producer(node.inputs[0], "reshape");
  if (!reshape || !is_widened(e, reshape->inputs[0])) return kNoValue;
  std::vector<ValueId> inputs = node.inputs;
  TESSERA_TRY(inputs[0], reshaped(e, reshape->inputs[0], e.shape(node.inputs[0])));
  return e.add(node.op->name, inputs, node.attrs);
}

Result<ValueId> sink(Editor& e, const Node& node) {
  if (node.op->fusion != Fusion::kPointwise) return widen_behind(e, node);
  const Shape to = e.shape(node.outputs[0]);
  const Node* reshape = nullptr;
  for (const ValueId id : node.inputs) {
    if (!reshape) reshape = sinkable(e, id, to);
  }
  if (!reshape) return kNoValue;
  const Shape from = e.shape(reshape->inputs[0]);
  std::vector<Shape> shapes;
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) return kNoValue;
    const auto shape = broadcast_shape(e.shape(id), from, to);
    if (!shape) return kNoValue;
    shapes.push_back(*shape);
  }
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const ValueId id = node.inputs[i];
    const Node* known = e.producer(id, "reshape");
    if (known && e.shape(known->inputs[0]) == shapes[i]) {
      inputs.push_back(known->inputs[0]);
    } else if (e.shape(id) == shapes[i]) {
      inputs.push_back(id);
    } else {
      TESSERA_TRY(const ValueId other, reshaped(e, id, shapes[i]));
      inputs.push_back(other);
    }
  }
  TESSERA_TRY(const ValueId value, e.add(node.op->name, inputs, node.attrs));
  return e.add("reshape", {value}, {{"shape", to}});
}

}  // namespace

Result<bool> sink_reshapes(Graph& graph, const PassOptions&) { return Editor(graph).rewrite(sink); }

}  // namespace tessera::graph
