// As node_model.h, for nodes whose inputs are given, known and omitted in any order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "node_model.h"

namespace tessera::onnx::testing {

struct OneNode {
  std::string op;
  std::int64_t opset = 17;
  std::vector<Attribute> attributes = {};
  std::size_t outputs = 1;
  std::string domain = "";
  std::vector<std::size_t> unasked = {};  // outputs without a name; there are no results of them
};

using tessera::testing::tensor;

// An input of the node: given at run time, known at import, or omitted.
struct Operand {
  HostTensor value;
  bool constant = false;
  bool omitted = false;
  Operand(HostTensor v) : value(std::move(v)) {}  // NOLINT(google-explicit-constructor)
};
inline Operand known(HostTensor v) {
  Operand x(std::move(v));
  x.constant = true;
  return x;
}
inline Operand omitted() {
  Operand x{HostTensor()};
  x.omitted = true;
  return x;
}

inline Result<std::vector<HostTensor>> run_node(const OneNode& what,
                                                const std::vector<Operand>& operands) {
  Graph graph;
  std::vector<std::string> inputs, outputs;
  std::vector<HostTensor> given;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& x = operands[i];
    inputs.push_back(x.omitted ? "" : "x" + std::to_string(i));
    if (x.omitted) continue;
    if (x.constant) {
      graph.initializers.push_back({inputs.back(), x.value});
    } else {
      graph.inputs.push_back(value_info(inputs.back(), x.value.dtype(), x.value.shape()));
      given.push_back(x.value);
    }
  }
  for (std::size_t i = 0; i < what.outputs; ++i) outputs.push_back("y" + std::to_string(i));
  for (const std::size_t i : what.unasked) outputs[i] = "";
  for (const std::string& name : outputs) {
    if (!name.empty()) graph.outputs.push_back(output(name));
  }
  graph.nodes = {make_node(what.op, inputs, outputs, what.attributes)};
  graph.nodes[0].domain = what.domain;
  Model model = make_model(std::move(graph), what.opset);
  if (!what.domain.empty()) model.opsets[what.domain] = 1;
  const auto imported = import_model(model);
  if (!imported.ok()) return imported.error();
  return graph::evaluate(*imported, given);
}

// The message of the error that import must give.
inline std::string refusal(const OneNode& what, const std::vector<Operand>& operands) {
  const auto result = run_node(what, operands);
  return result.ok() ? "no error" : result.error().message;
}

}  // namespace tessera::onnx::testing
