#include "tessera/app/compile/run_once.h"

#include <map>

#include "tessera/app/compile/run_loop.h"
#include "tessera/app/compile/run_split.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/frontend/onnx/input_types.h"
#include "tessera/machine/runtime/device/cpu_device.h"

namespace tessera::app {
namespace {

Result<RunOutputs> run_whole(ModelSource& source, const CompileOptions& options,
                             const GiveInputs& give_inputs) {
  TESSERA_TRY(const OpenModel open, open_model(source, options));
  const exec::CompiledModel& model = open.model();
  TESSERA_TRY(const std::vector<HostTensor> inputs,
              give_inputs(model.input_names, model.input_types, &model));
  RunOutputs out{model.output_names, {}, model.digest};
  TESSERA_TRY(out.tensors, exec::run_model(model, *open.device, inputs));
  return out;
}

// Some shapes follow from data, for `reason`.
Result<RunOutputs> run_in_parts(const onnx::Model& model, const CompileOptions& options,
                                const GiveInputs& give_inputs, const std::string& reason) {
  TESSERA_TRY(const onnx::ResolvedInputs declared,
              onnx::resolve_inputs(model.graph, options.import));
  std::vector<std::string> names;
  std::vector<graph::TensorType> types;
  std::map<std::string, HostTensor> values;
  for (const onnx::GraphInput& input : declared.inputs) {
    if (input.value) {
      values[input.name] = *input.value;
      continue;
    }
    if (!input.foreign.empty()) {
      return make_error(ErrorCode::kUnsupported, "input '{}' is of type {}", input.name,
                        input.foreign);
    }
    names.push_back(input.name);
    types.push_back(input.type);
  }
  TESSERA_TRY(const std::vector<HostTensor> inputs, give_inputs(names, types, nullptr));
  for (std::size_t i = 0; i < names.size(); ++i) values[names[i]] = inputs[i];
  runtime::CpuDevice device({.threads = options.target.code_threads()});
  NodeEvaluator evaluator(target::host(), device, kWorthCompiling, options.cache);
  TESSERA_TRY(SplitRun ran, run_split(model, values, evaluator, device, options));
  if (options.note) {
    options.note(
        fmt::format("{} of {} nodes ran on the host: {}", ran.host_nodes, ran.model_nodes, reason));
  }
  RunOutputs out{{}, std::move(ran.outputs), ""};
  for (const onnx::ValueInfo& v : model.graph.outputs) out.names.push_back(v.name);
  return out;
}

}  // namespace

Result<RunOutputs> run_once(ModelSource& source, const CompileOptions& options,
                            const GiveInputs& give_inputs) {
  const bool here = target::runs_on_host(options.target);
  CompileOptions how = options;
  if (here) how.import.unrolled_nodes = kUnrolledNodes;
  Result<RunOutputs> out = run_whole(source, how, give_inputs);
  if (out.ok() || out.error().code != ErrorCode::kDataDependent) return out;
  const std::string& reason = out.error().message;
  if (!here) {
    return make_error(ErrorCode::kUnsupported, "{}; such models run on the host only", reason);
  }
  TESSERA_TRY(const onnx::Model* model, source.model());
  return run_in_parts(*model, how, give_inputs, reason.substr(0, reason.find('\n')));
}

}  // namespace tessera::app
