// Rewrites a graph in one walk over its nodes: a rule replaces the value of a node by new nodes,
// and everything behind it reads the replacement.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "tessera/frontend/graph/op.h"

namespace tessera::graph {

class Editor {
 public:
  // Returns the value that replaces the node's only output, of the same type; kNoValue keeps the
  // node. Its inputs are rewritten already. References to nodes stay valid.
  using Rule = std::function<Result<ValueId>(Editor&, const Node&)>;

  explicit Editor(Graph& graph);

  // Walks the nodes in order; those with more than one output stay. Call once. Dead nodes remain.
  // Returns whether a rule replaced anything. After an error the graph is unusable.
  Result<bool> rewrite(const Rule& rule);

  // Adds a node with one output, or its value as a constant when all inputs are constant and it is
  // small or not larger than they are. Takes the origin of the node being rewritten.
  Result<ValueId> add(std::string_view op, const std::vector<ValueId>& inputs, Attrs attrs = {});
  ValueId constant(HostTensor tensor);

  // The node that computes `id`; null for inputs and constants.
  const Node* producer(ValueId id) const;
  // ... when it is an `op`, else null.
  const Node* producer(ValueId id, std::string_view op) const;
  // One node reads `id` in one operand and the graph does not return it.
  bool has_one_reader(ValueId id) const { return readers_[index(id)] == 1; }

  const Graph& graph() const { return graph_; }
  // A copy, as values move when nodes are added.
  Shape shape(ValueId id) const { return graph_.shape(id); }
  DType dtype(ValueId id) const { return graph_.type(id).dtype; }
  // Null when `id` is not constant; valid until something is added.
  const HostTensor* constant_of(ValueId id) const { return graph_.constant(id); }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  std::string unique_name(const std::string& base);
  void keep(Node node);
  void replace(const Node& node, ValueId by);
  void release(ValueId id);
  void grow();

  Graph& graph_;
  std::vector<Node> old_nodes_;
  std::deque<Node> nodes_;
  std::vector<const Node*> producers_;  // by value
  std::vector<std::int32_t> readers_;   // operands that read a value, plus one if it is an output
  std::vector<ValueId> replaced_;       // by value: itself or what stands for it
  std::unordered_set<std::string> names_;
  ValueId first_new_;
  std::string origin_;
};

// The bytes of a value of this type; 0 when it is not computable (such types do not verify).
std::int64_t value_bytes(const TensorType& type);

}  // namespace tessera::graph
