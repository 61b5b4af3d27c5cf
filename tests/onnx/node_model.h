// Runs a model of one node through import, in both ways that a model can run.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model_builder.h"
#include "tessera/frontend/onnx/import.h"
#include "tests/testing/testing.h"

namespace tessera::onnx::testing {

struct NodeCase {
  std::string op;
  std::int64_t opset = 17;
  std::vector<Attribute> attributes;
  std::vector<HostTensor> inputs;     // run-time inputs come first
  std::vector<HostTensor> constants;  // initializers for the inputs after them
  std::size_t outputs = 1;
  std::size_t omitted_before = 0;  // "" between inputs and constants
};

inline Attribute attr(const std::string& name, AttributeValue value) {
  return {name, std::move(value), ""};
}

inline Model node_model(const NodeCase& c) {
  std::vector<std::string> inputs, outputs;
  std::vector<ValueInfo> infos;
  std::vector<Initializer> initializers;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back("x" + std::to_string(i));
    infos.push_back(value_info(inputs.back(), c.inputs[i].dtype(), c.inputs[i].shape()));
  }
  for (std::size_t i = 0; i < c.omitted_before; ++i) inputs.push_back("");
  for (std::size_t i = 0; i < c.constants.size(); ++i) {
    inputs.push_back("c" + std::to_string(i));
    initializers.push_back({inputs.back(), c.constants[i]});
  }
  for (std::size_t i = 0; i < c.outputs; ++i) outputs.push_back("y" + std::to_string(i));
  return make_model(
      make_graph(infos, {make_node(c.op, inputs, outputs, c.attributes)}, outputs, initializers),
      c.opset);
}

inline Result<graph::Graph> import_case(const NodeCase& c) { return import_model(node_model(c)); }

// The operators of the graph that the node becomes, by name, in order.
inline std::vector<std::string> operators_of(const NodeCase& c) {
  const auto graph = import_case(c);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  std::vector<std::string> names;
  if (!graph.ok()) return names;
  for (const graph::Node& node : graph->nodes) names.push_back(node.op->name);
  return names;
}

// The outputs; importing with all values known must give the same.
inline std::vector<HostTensor> run_case(const NodeCase& c) {
  const auto graph = import_case(c);
  EXPECT_TRUE(graph.ok()) << c.op << ": " << graph.error().message;
  if (!graph.ok()) return std::vector<HostTensor>(c.outputs);
  const auto outputs = graph::evaluate(*graph, c.inputs);
  EXPECT_TRUE(outputs.ok()) << c.op << ": " << outputs.error().message;
  if (!outputs.ok()) return std::vector<HostTensor>(c.outputs);
  ImportOptions known;
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    known.values["x" + std::to_string(i)] = c.inputs[i];
  const auto folded = import_model(node_model(c), known);
  EXPECT_TRUE(folded.ok()) << c.op << ": " << folded.error().message;
  for (std::size_t i = 0; folded.ok() && i < outputs->size(); ++i) {
    const HostTensor* constant = folded->constant(folded->outputs[i]);
    EXPECT_NE(constant, nullptr) << c.op;
    if (constant == nullptr) continue;
    EXPECT_EQ(tessera::testing::mismatch(*constant, (*outputs)[i], 0), "") << c.op;
  }
  return *outputs;
}

// Why the model is refused; "" when it is not.
inline std::string refusal(const NodeCase& c) {
  const auto graph = import_case(c);
  return graph.ok() ? "" : graph.error().message;
}

using tessera::testing::counting;
using tessera::testing::values_of;

inline HostTensor list(const std::vector<std::int64_t>& values) {
  return int_tensor({static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace tessera::onnx::testing
