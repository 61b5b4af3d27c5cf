// A 1x1 convolution that became a product of matrices ends in a reshape to the image. Pointwise
// nodes behind it move in front of that reshape, so that they run in the kernel of the product.
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

Result<ValueId> sink(Editor& e, const Node& node) {
  if (node.op->fusion != Fusion::kPointwise) return kNoValue;
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
      TESSERA_TRY(const ValueId other, e.add("reshape", {id}, {{"shape", shapes[i]}}));
      inputs.push_back(other);
    }
  }
  TESSERA_TRY(const ValueId value, e.add(node.op->name, inputs, node.attrs));
  return e.add("reshape", {value}, {{"shape", to}});
}

}  // namespace

Result<bool> sink_reshapes(Graph& graph, const PassOptions&) { return Editor(graph).rewrite(sink); }

}  // namespace tessera::graph
