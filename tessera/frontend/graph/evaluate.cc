// The oracle: nodes and graphs on host tensors, by the interpreter.
#include "tessera/frontend/graph/op.h"
#include "tessera/lang/interp/interp.h"

namespace tessera::graph {
namespace {

NodeView make_view(const Attrs& attrs, const std::vector<const HostTensor*>& inputs,
                   std::vector<TensorType>& storage) {
  NodeView node{attrs, {}, {}};
  storage.reserve(inputs.size());
  for (const HostTensor* t : inputs) {
    if (t) storage.push_back({t->dtype(), t->shape()});
    node.types.push_back(t ? &storage.back() : nullptr);
    node.constants.push_back(t);
  }
  return node;
}

// A definition may give its output another shape with the same elements in the same order.
HostTensor with_type(const HostTensor& t, const TensorType& type) {
  return t.shape() == type.shape ? t : t.reshaped(type.shape);
}

Result<std::vector<HostTensor>> interpret(const OpDef& op, const NodeView& node,
                                          const std::vector<const HostTensor*>& inputs,
                                          const std::vector<TensorType>& types) {
  te::DagBuilder b(op.name);
  std::vector<ir::Buffer> buffers;
  std::vector<HostTensor> tensors;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) {
      buffers.emplace_back();
      continue;
    }
    buffers.push_back(b.input(fmt::format("in{}", i), inputs[i]->dtype(), inputs[i]->shape()));
    tensors.push_back(*inputs[i]);
  }
  TESSERA_TRY(std::vector<ir::Buffer> outputs, op.define(b, op.name, node, buffers));
  TESSERA_CHECK(outputs.size() == types.size(), "{}: defines {} outputs, infers {}", op.name,
                outputs.size(), types.size());
  TESSERA_TRY(const std::vector<HostTensor> raw, interp::run(b.build(outputs), tensors));
  std::vector<HostTensor> results;
  for (std::size_t i = 0; i < raw.size(); ++i) results.push_back(with_type(raw[i], types[i]));
  return results;
}

}  // namespace

NodeView view(const Graph& graph, const Node& node) {
  NodeView v{node.attrs, {}, {}};
  for (const ValueId id : node.inputs) {
    v.types.push_back(id == kNoValue ? nullptr : &graph.type(id));
    v.constants.push_back(graph.constant(id));
  }
  return v;
}

Result<std::vector<HostTensor>> evaluate_node(const OpDef& op, const Attrs& attrs,
                                              const std::vector<const HostTensor*>& inputs) {
  std::vector<TensorType> storage;
  const NodeView node = make_view(attrs, inputs, storage);
  // Operators whose output size is data are typed by their own evaluation.
  if (op.evaluate && !op.define) return op.evaluate(node, inputs);
  TESSERA_TRY(const std::vector<TensorType> types, op.infer(node));
  bool empty = true;
  for (const TensorType& t : types) {
    TESSERA_TRY(const std::int64_t count, checked_elements(t.shape, t.dtype));
    empty = empty && count == 0;
  }
  if (empty) {
    std::vector<HostTensor> results;
    for (const TensorType& t : types) results.emplace_back(t.dtype, t.shape);
    return results;
  }
  if (op.evaluate) return op.evaluate(node, inputs);
  TESSERA_CHECK(op.define, "{} has neither a definition nor an evaluation", op.name);
  return interpret(op, node, inputs, types);
}

Result<std::vector<HostTensor>> evaluate(const Graph& graph,
                                         const std::vector<HostTensor>& inputs) {
  if (inputs.size() != graph.inputs.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{} inputs given, the model has {}",
                      inputs.size(), graph.inputs.size());
  }
  std::vector<HostTensor> tensors(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].is_constant) tensors[i] = graph.values[i].constant;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorType given{inputs[i].dtype(), inputs[i].shape()};
    if (!(given == graph.type(graph.inputs[i]))) {
      return make_error(ErrorCode::kInvalidArgument, "input {} must be {}, not {}",
                        graph.value(graph.inputs[i]).name, to_text(graph.type(graph.inputs[i])),
                        to_text(given));
    }
    tensors[static_cast<std::size_t>(graph.inputs[i])] = inputs[i];
  }
  for (const Node& node : graph.nodes) {
    std::vector<const HostTensor*> args;
    for (const ValueId id : node.inputs) {
      args.push_back(id == kNoValue ? nullptr : &tensors[static_cast<std::size_t>(id)]);
    }
    auto results = evaluate_node(*node.op, node.attrs, args);
    if (!results) return results.error().with_context(node.origin);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      tensors[static_cast<std::size_t>(node.outputs[i])] = std::move((*results)[i]);
    }
  }
  std::vector<HostTensor> outputs;
  for (const ValueId id : graph.outputs) outputs.push_back(tensors[static_cast<std::size_t>(id)]);
  return outputs;
}

}  // namespace tessera::graph
