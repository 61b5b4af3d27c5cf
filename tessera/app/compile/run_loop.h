// Long loops: the body of a Loop or Scan is imported once, compiled once, and called step by step.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/run_eager.h"
#include "tessera/backend/exec/compile_model.h"

namespace tessera::app {

// Nodes that a loop may become in a model that is about to run; longer ones are left to run_loop.
inline constexpr std::int64_t kUnrolledNodes = 1000;

struct LoopRun {
  std::vector<HostTensor> outputs;  // as the node lists them, those without a name too
  std::int64_t compiled_kernels = 0;
};

// What a loop needs besides its node. References must outlive the call.
struct LoopContext {
  const onnx::Model& model;                         // opsets and functions
  const std::map<std::string, HostTensor>& values;  // of the scope, by name
  const std::vector<onnx::Initializer>& constants;  // of the scope
  NodeEvaluator& evaluator;
  runtime::Device& device;
  const CompileOptions& options;
};

// Empty: not a loop, or one whose body cannot be imported once for all steps (shapes that change
// from step to step, sequences, no step at all); run_eager takes those. kUnsupported: more steps
// than options.import.max_loop_steps.
Result<std::optional<LoopRun>> run_loop(const onnx::Node& node, const LoopContext& context);

// Runs a graph node by node. What the evaluator cannot do by itself is an error.
Result<std::vector<HostTensor>> evaluate_nodes(const graph::Graph& graph, NodeEvaluator& evaluator,
                                               const std::vector<HostTensor>& inputs);

// Every name that a node reads, also from inside its bodies. Names that bodies define for
// themselves may be among them.
void collect_names(const onnx::Node& node, std::set<std::string>& names);

}  // namespace tessera::app
