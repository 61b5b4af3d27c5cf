// Models of which some shapes follow from data: what is known runs as compiled code, the rest node
// by node on the host.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/run_eager.h"
#include "tessera/backend/exec/compile_model.h"

namespace tessera::app {

struct SplitRun {
  std::vector<HostTensor> outputs;               // in the model's order
  std::int64_t host_nodes = 0, model_nodes = 0;  // of the model, bodies not counted
  std::int64_t compiled_kernels = 0;             // in the parts that were compiled as a whole
};

// Runs the known part of the model, then the nodes that wait for its values; these give shapes to
// the next part, and so on. Parts too small to be worth compiling run node by node as well.
// Inputs by name; each must be given.
Result<SplitRun> run_split(const onnx::Model& model,
                           const std::map<std::string, HostTensor>& inputs,
                           NodeEvaluator& evaluator, runtime::Device& device,
                           const CompileOptions& options);

}  // namespace tessera::app
