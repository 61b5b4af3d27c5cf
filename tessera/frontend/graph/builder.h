// Builds a Graph node by node. Types are inferred and constants folded as nodes are added, so shape
// arithmetic never reaches the finished graph.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/frontend/graph/op.h"

namespace tessera::graph {

struct BuilderOptions {
  // Runs a node whose inputs are all constant; default evaluate_node. The driver passes compiled
  // code here for models that run node by node.
  std::function<Result<std::vector<HostTensor>>(const OpDef&, const Attrs&,
                                                const std::vector<const HostTensor*>&)>
      evaluate;
  // A result larger than this many bytes, and than all its inputs together, is left to run time.
  std::int64_t fold_limit = std::int64_t{64} << 20;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name, BuilderOptions options = {});

  ValueId input(const std::string& name, TensorType type);
  ValueId constant(HostTensor tensor, const std::string& name = "");
  ValueId scalar(DType dtype, double value);                  // rank 0
  ValueId integers(const std::vector<std::int64_t>& values);  // i64[n]

  // Origin given to nodes added from here on.
  void set_origin(std::string origin) { origin_ = std::move(origin); }

  // Adds one node; returns all its outputs. Folds when every given input is constant.
  Result<std::vector<ValueId>> add_node(std::string_view op, const std::vector<ValueId>& inputs,
                                        Attrs attrs = {});
  // ... of an operator with one output.
  Result<ValueId> add(std::string_view op, const std::vector<ValueId>& inputs, Attrs attrs = {});

  // The value as a constant where it only unpacks constants; itself otherwise.
  Result<ValueId> unpacked(ValueId id);

  // The handful of helpers that nearly every import function needs.
  Result<ValueId> cast(ValueId x, DType to);  // x itself when it has that type
  Result<ValueId> reshape(ValueId x, const Shape& shape);
  Result<ValueId> transpose(ValueId x, const std::vector<std::int64_t>& perm);

  const Graph& graph() const { return graph_; }
  const TensorType& type(ValueId id) const { return graph_.type(id); }
  const Shape& shape(ValueId id) const { return graph_.shape(id); }
  DType dtype(ValueId id) const { return graph_.type(id).dtype; }
  const HostTensor* constant_of(ValueId id) const { return graph_.constant(id); }
  void name_value(ValueId id, const std::string& name);

  Graph finish(std::vector<ValueId> outputs, std::vector<std::string> output_names);

 private:
  Graph graph_;
  BuilderOptions options_;
  std::string origin_;
  std::map<ValueId, std::size_t> unpacking_;  // nodes that unpack constants, and permute that
  std::map<ValueId, ValueId> unpacked_;
};

}  // namespace tessera::graph
