#include "tessera/frontend/gguf/nodes.h"

namespace tessera::gguf {

std::string Nodes::fresh(const std::string& op) {
  return fmt::format("{}{}{}.{}", scope_, scope_.empty() ? "" : ".", op, count_++);
}

std::string Nodes::add(const std::string& op, std::vector<std::string> inputs,
                       std::vector<onnx::Attribute> attributes, const std::string& domain) {
  onnx::Node node;
  node.name = fresh(op);
  node.op_type = op;
  node.domain = domain;
  node.inputs = std::move(inputs);
  node.outputs = {node.name};
  node.attributes = std::move(attributes);
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().name;
}

std::vector<std::string> Nodes::split(const std::string& x, std::int64_t axis,
                                      const std::vector<std::int64_t>& sizes) {
  const std::string name = add("Split", {x, ints(sizes)}, {attr("axis", axis)});
  std::vector<std::string>& outputs = graph_.nodes.back().outputs;
  outputs.clear();
  for (std::size_t i = 0; i < sizes.size(); ++i) outputs.push_back(fmt::format("{}:{}", name, i));
  return outputs;
}

std::string Nodes::constant(const std::string& name, HostTensor value) {
  graph_.initializers.push_back({name, std::move(value)});
  return name;
}

std::string Nodes::ints(std::vector<std::int64_t> values) {
  HostTensor t(DType::kI64, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i)
    t.set_int(static_cast<std::int64_t>(i), values[i]);
  return constant(fresh("ints"), std::move(t));
}

std::string Nodes::scalar(double value) {
  HostTensor t(DType::kF32, {});
  t.set_float(0, value);
  return constant(fresh("scalar"), std::move(t));
}

std::string Nodes::reshape(const std::string& x, std::vector<std::int64_t> shape) {
  return add("Reshape", {x, ints(std::move(shape))});
}

std::string Nodes::transpose(const std::string& x, std::vector<std::int64_t> order) {
  return add("Transpose", {x}, {attr("perm", std::move(order))});
}

std::string Nodes::extent(const std::string& x, std::int64_t axis) {
  HostTensor index(DType::kI64, {});
  index.set_int(0, axis);
  return add("Gather", {add("Shape", {x}), constant(fresh("axis"), std::move(index))},
             {attr("axis", std::int64_t{0})});
}

void Nodes::input(const std::string& name, DType dtype, std::vector<onnx::Dim> dims) {
  graph_.inputs.push_back({name, to_text(dtype), true, std::move(dims)});
}

void Nodes::output(const std::string& value, const std::string& name, DType dtype,
                   std::vector<onnx::Dim> dims) {
  add("Identity", {value});
  graph_.nodes.back().outputs = {name};
  graph_.outputs.push_back({name, to_text(dtype), true, std::move(dims)});
}

}  // namespace tessera::gguf
