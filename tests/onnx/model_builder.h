// Short ways to write small models in tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/frontend/onnx/model.h"
#include "tests/testing/tensors.h"

namespace tessera::onnx::testing {

inline ValueInfo value_info(const std::string& name, DType dtype, const Shape& shape) {
  ValueInfo info{name, to_text(dtype), true, {}};
  for (const std::int64_t d : shape) info.dims.push_back({d, ""});
  return info;
}

inline Node make_node(const std::string& op, std::vector<std::string> inputs,
                      std::vector<std::string> outputs, std::vector<Attribute> attributes = {}) {
  Node node;
  node.op_type = op;
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  node.attributes = std::move(attributes);
  return node;
}

inline Attribute body_attribute(const std::string& name, Graph body) {
  return {name, std::make_shared<const Graph>(std::move(body)), ""};
}

inline HostTensor int_tensor(const Shape& shape, const std::vector<std::int64_t>& values) {
  HostTensor t(DType::kI64, shape);
  for (std::size_t i = 0; i < values.size(); ++i)
    t.set_int(static_cast<std::int64_t>(i), values[i]);
  return t;
}

inline HostTensor float_tensor(const Shape& shape, const std::vector<double>& values) {
  return tessera::testing::tensor(DType::kF32, shape, values);
}

inline HostTensor bool_scalar(bool value) {
  HostTensor t(DType::kBool, {});
  t.set_int(0, value ? 1 : 0);
  return t;
}

inline ValueInfo output(const std::string& name) { return {name, "undefined", false, {}}; }

inline Graph make_graph(std::vector<ValueInfo> inputs, std::vector<Node> nodes,
                        const std::vector<std::string>& outputs,
                        std::vector<Initializer> initializers = {}) {
  Graph graph;
  graph.name = std::string("g");
  graph.nodes = std::move(nodes);
  graph.initializers = std::move(initializers);
  graph.inputs = std::move(inputs);
  for (const std::string& name : outputs) graph.outputs.push_back(output(name));
  return graph;
}

inline Model make_model(Graph graph, std::int64_t opset = 17) {
  Model model;
  model.opsets[""] = opset;
  model.graph = std::move(graph);
  return model;
}

}  // namespace tessera::onnx::testing
