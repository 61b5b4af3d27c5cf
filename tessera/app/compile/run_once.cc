#include "tessera/app/compile/run_once.h"

#include "tessera/app/compile/staged_model.h"
#include "tessera/backend/exec/model_runner.h"

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
  TESSERA_TRY(const auto staged, StagedModel::make(model, options));
  TESSERA_TRY(const std::vector<HostTensor> inputs,
              give_inputs(staged->input_names(), staged->input_types(), nullptr));
  RunOutputs out{staged->output_names(), {}, ""};
  TESSERA_TRY(out.tensors, staged->run(inputs));
  if (options.note) {
    options.note(fmt::format("{} of {} nodes ran on the host: {}", staged->host_nodes(),
                             staged->model_nodes(), reason));
  }
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
