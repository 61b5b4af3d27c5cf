// The walk over a model that import_model and check_model share.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>

#include "tessera/frontend/onnx/import.h"
#include "tessera/frontend/onnx/import_order.h"
#include "tessera/frontend/onnx/input_types.h"
#include "tessera/frontend/onnx/ops/op.h"

namespace tessera::onnx {

// What a name stands for.
struct Binding {
  enum class Kind : std::uint8_t {
    kValue,
    kOmitted,   // an input of a function that the caller left out
    kForeign,   // a value whose type has no DType
    kPoisoned,  // comes from a node that was refused; its readers are skipped
  };
  Kind kind = Kind::kValue;
  ValueId id = kNoValue;  // of a foreign value: the elements in a wider type, if known
  std::string type;       // of a foreign value
};

struct Scope {
  const Scope* outer = nullptr;
  std::unordered_map<std::string, Binding> names;

  const Binding* find(const std::string& name) const;  // own names first, then outwards
};

struct Issue {
  ErrorCode code;  // kUnsupported or kDataDependent
  NodeIssue text;
  std::string message;  // with the node in front
};

class Importer final : public BodyImporter {
 public:
  Importer(const Model& model, const ImportOptions& options);

  // Fails for what makes the model invalid; nodes that are unsupported or depend on data are
  // collected in issues().
  Result<graph::Graph> run();
  // The same for split_model; the model's outputs that are not known are left out.
  Result<SplitModel> run_split();
  const std::vector<Issue>& issues() const { return issues_; }
  const DimSizes& sizes() const { return sizes_; }  // of symbolic dimensions

  Result<std::vector<ValueId>> import_body(const Graph& body,
                                           const std::vector<ValueId>& args) override;
  LoopLimits loop_limits() const override {
    return {options_.max_loop_steps, options_.unrolled_nodes};
  }
  std::int64_t count_draw(const std::string& name) override { return draws_[name]++; }

 private:
  // Where a node stands: the same for all nodes of a graph, body or function.
  struct Frame {
    Scope* scope = nullptr;
    const std::map<std::string, std::int64_t>* opsets = nullptr;
    const std::map<std::string, Attribute>* attributes = nullptr;  // of the calling node, or null
    int depth = 0;
  };
  using FunctionKey = std::tuple<std::string, std::string, std::string>;

  Result<void> walk();                           // binds inputs and imports the nodes
  bool is_known(const std::string& name) const;  // a tensor of the graph, at the outermost level
  Result<void> bind_inputs(Scope& scope);
  void bind_initializers(const Graph& graph, Scope& scope);
  Binding foreign_binding(const ForeignTensor& tensor);
  Result<void> import_nodes(const ImportOrder& order, const Frame& frame);
  Result<void> import_node(const Node& node);
  Result<void> import_operator(const Node& node, std::vector<Binding> inputs);
  Result<void> call_function(const Function& function, const Node& node,
                             const std::vector<Binding>& inputs);
  Result<std::vector<Binding>> find_inputs(const Node& node) const;
  Result<void> check_budget() const;
  // Records an issue and poisons the node's outputs; other errors pass through with context.
  Result<void> refuse(const Node& node, const Error& error, std::size_t issues_before);
  void bind(const std::string& name, Binding binding);
  Node resolve_references(const Node& node) const;
  std::int64_t opset(const Node& node) const;
  std::string label(const Node& node) const;  // "Conv-11"
  Result<const ImportOrder*> order_of(const Graph& graph);
  Result<const ImportOrder*> order_of(const Function& function);
  template <class Nodes>
  Result<const ImportOrder*> keep_order(const Nodes& nodes);

  const Model& model_;
  const ImportOptions& options_;
  graph::GraphBuilder builder_;
  std::map<FunctionKey, const Function*> functions_;
  std::unordered_map<const void*, ImportOrder> orders_;  // by graph or function
  DimSizes sizes_;
  Scope top_;
  Frame frame_;
  std::vector<const Node*> unknown_;  // outermost nodes with an output that is_known is not true of
  std::vector<const Function*> calls_;  // being imported, the innermost last
  Sequences sequences_;
  std::vector<Issue> issues_;
  bool body_poisoned_ = false;  // the body just imported needs a value of a refused node
  std::int64_t nodes_imported_ = 0;
  std::map<std::string, std::int64_t> draws_;  // by name
};

}  // namespace tessera::onnx
