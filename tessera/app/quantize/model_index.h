// Who makes and who reads each value of an ONNX model, and its constants.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tessera/frontend/onnx/model.h"

namespace tessera::app {

// Of the main graph; valid until its nodes or initializers change.
class ModelIndex {
 public:
  explicit ModelIndex(const onnx::Graph& graph);

  // An initializer that is not an input, or the value of a Constant node; null: neither.
  const HostTensor* constant(const std::string& name) const;
  const onnx::Node* producer(const std::string& name) const;  // null: an input or initializer
  // Nodes that read it, once per operand.
  const std::vector<std::size_t>& readers(const std::string& name) const;
  // Whether anything but nodes of the main graph reads it: an output, or the body of a node.
  bool is_read_elsewhere(const std::string& name) const { return elsewhere_.contains(name); }
  // The only node that reads it, where nothing else does; null otherwise.
  const onnx::Node* only_reader(const std::string& name) const;
  const onnx::Graph& graph() const { return graph_; }

 private:
  const onnx::Graph& graph_;
  std::map<std::string, HostTensor> constants_;
  std::map<std::string, std::size_t> producers_;
  std::map<std::string, std::vector<std::size_t>> readers_;
  std::set<std::string> elsewhere_;
};

// Names that no value of the graph has.
class FreshNames {
 public:
  explicit FreshNames(const onnx::Graph& graph);
  std::string operator()(std::string name);

 private:
  std::set<std::string> used_;
};

// Adds an initializer; returns its name.
std::string add_constant(onnx::Graph& graph, FreshNames& fresh, const std::string& name,
                         std::variant<HostTensor, onnx::ForeignTensor> value);

// Removes Constant nodes and initializers that nothing reads.
void drop_unused_constants(onnx::Graph& graph);

bool is_plain(const onnx::Node& node, std::string_view op);  // that operator of the ONNX domain
std::int64_t integer_attribute(const onnx::Node& node, std::string_view name, std::int64_t absent);
double float_attribute(const onnx::Node& node, std::string_view name, double absent);

}  // namespace tessera::app
