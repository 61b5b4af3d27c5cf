#include "tessera/app/compile/conformance.h"

#include "tessera/app/compile/run_eager.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/parallel.h"

namespace tessera::app {

const char* to_text(Ran ran) {
  switch (ran) {
    case Ran::kNot:
      return "not run";
    case Ran::kCode:
      return "code";
    case Ran::kHost:
      return "host";
    case Ran::kFolded:
      return "folded";
    case Ran::kNodes:
      return "nodes";
    case Ran::kInterpreted:
      return "interpreted";
  }
  return "unknown";
}

namespace {

// Code counts most: a case may have several data sets.
Ran most(Ran a, const exec::CompiledModel& model) {
  if (a == Ran::kCode || !model.kernels.empty()) return Ran::kCode;
  return a == Ran::kHost || !model.steps.empty() ? Ran::kHost : Ran::kFolded;
}

Result<std::vector<HostTensor>> run_compiled(const graph::Graph& imported,
                                             const std::vector<HostTensor>& inputs, Ran* ran) {
  graph::Graph graph = imported;
  TESSERA_DO(graph::optimize(graph, {}));
  exec::ModelOptions options;
  options.build_threads = 1;
  TESSERA_TRY(const exec::CompiledModel model, exec::compile_model(graph, target::host(), options));
  *ran = most(*ran, model);
  runtime::CpuDevice device({.threads = 1});
  return exec::run_model(model, device, inputs);
}

ConformanceCase run_case(const std::string& folder, ConformanceMode mode) {
  ConformanceCase c{folder, {}};
  runtime::CpuDevice device({.threads = 1});
  const bool nodes = mode == ConformanceMode::kNodes;
  const bool interpret = mode == ConformanceMode::kInterpret;
  // Forced to run node by node, every node is compiled, however small: that is what is tested.
  NodeEvaluator evaluator(target::host(), device, nodes ? 0 : kWorthCompiling);
  onnx::CaseOptions options;
  options.eager = nodes;
  if (!interpret) options.eager_builder = eager_builder(evaluator);
  c.result = onnx::run_backend_case(
      folder, options, [&](const graph::Graph& graph, const std::vector<HostTensor>& inputs) {
        if (interpret || nodes) return graph::evaluate(graph, inputs);
        return run_compiled(graph, inputs, &c.ran);
      });
  if (c.result.verdict == onnx::Verdict::kUnsupported) {
    c.ran = Ran::kNot;
  } else if (interpret) {
    c.ran = Ran::kInterpreted;
  } else if (c.result.eager) {
    c.ran = Ran::kNodes;
  }
  return c;
}

}  // namespace

std::vector<ConformanceCase> run_conformance(const std::vector<std::string>& folders,
                                             ConformanceMode mode, int jobs) {
  std::vector<ConformanceCase> cases(folders.size());
  parallel_for(folders.size(), jobs > 0 ? jobs : target::usable_cpus(),
               [&](std::size_t i) { cases[i] = run_case(folders[i], mode); });
  return cases;
}

}  // namespace tessera::app
