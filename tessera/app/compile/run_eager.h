// Models whose shapes follow from data: run node by node, each with the sizes it then has.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/backend/kernel/compile_op.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/frontend/onnx/import.h"
#include "tessera/machine/runtime/device/device.h"

namespace tessera::app {

// Compiling takes tens of milliseconds, in which the interpreter does about this many steps.
constexpr double kWorthCompiling = 2e6;

// Runs single nodes, compiled when they have at least `compile_from` steps; code is kept for the
// next node like it.
class NodeEvaluator {
 public:
  NodeEvaluator(const target::Target& target, runtime::Device& device,
                double compile_from = kWorthCompiling,
                std::shared_ptr<const kernel::KernelCache> cache = nullptr)
      : target_(target), device_(device), compile_from_(compile_from), cache_(std::move(cache)) {}

  Result<std::vector<HostTensor>> operator()(const graph::OpDef& op, const graph::Attrs& attrs,
                                             const std::vector<const HostTensor*>& inputs);

 private:
  const target::Target& target_;
  runtime::Device& device_;
  double compile_from_;
  std::shared_ptr<const kernel::KernelCache> cache_;
  // By definition; emptied when sizes that follow from data have filled it.
  std::map<std::string, std::shared_ptr<kernel::CompiledOp>> compiled_;
};

// Computes every node on import, whatever its size, by `evaluator`, which must outlive the import.
graph::BuilderOptions eager_builder(NodeEvaluator& evaluator);

// Imports the model with all input values given: every node is computed on the way, by
// `evaluator`. Inputs by name; each must be given. Outputs in the model's order.
Result<std::vector<HostTensor>> run_eager(const onnx::Model& model,
                                          const std::map<std::string, HostTensor>& inputs,
                                          NodeEvaluator& evaluator,
                                          onnx::ImportOptions options = {});

// Runs a graph node by node. What the evaluator cannot do by itself is an error.
Result<std::vector<HostTensor>> evaluate_nodes(const graph::Graph& graph, NodeEvaluator& evaluator,
                                               const std::vector<HostTensor>& inputs);

}  // namespace tessera::app
