// Writes the nodes of a model whose shapes are known to who writes them.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/onnx/model.h"

namespace tessera::gguf {

inline onnx::Attribute attr(std::string name, onnx::AttributeValue value) {
  return {std::move(name), std::move(value), ""};
}

class Nodes {
 public:
  explicit Nodes(onnx::Graph* graph) : graph_(*graph) {}

  // Names of nodes made from now on begin so.
  void scope(std::string name) { scope_ = std::move(name); }

  std::string add(const std::string& op, std::vector<std::string> inputs,
                  std::vector<onnx::Attribute> attributes = {}, const std::string& domain = "");
  std::vector<std::string> split(const std::string& x, std::int64_t axis,
                                 const std::vector<std::int64_t>& sizes);
  std::string constant(const std::string& name, HostTensor value);
  std::string ints(std::vector<std::int64_t> values);
  std::string scalar(double value);
  std::string reshape(const std::string& x, std::vector<std::int64_t> shape);
  std::string transpose(const std::string& x, std::vector<std::int64_t> order);
  // How many elements x has along an axis, as a scalar.
  std::string extent(const std::string& x, std::int64_t axis);

  void input(const std::string& name, DType dtype, std::vector<onnx::Dim> dims);
  // Gives the value another name.
  void output(const std::string& value, const std::string& name, DType dtype,
              std::vector<onnx::Dim> dims);

 private:
  std::string fresh(const std::string& op);

  onnx::Graph& graph_;
  std::string scope_;
  std::size_t count_ = 0;
};

}  // namespace tessera::gguf
