#include "tessera/app/compile/staged_model.h"

#include <algorithm>

#include "tessera/frontend/onnx/input_types.h"
#include "tessera/machine/runtime/device/cpu_device.h"

namespace tessera::app {
namespace {

// Node by node, a small graph takes some hundred microseconds, its kernels a hundred milliseconds
// to compile: that pays when the graph runs again and again, not when it runs a few times.
constexpr std::int64_t kRunsOfAProgram = 2, kRunsOfACommand = 128;

}  // namespace

StagedModel::StagedModel(const CompileOptions& options, int threads)
    : options_(options),
      device_(std::make_unique<runtime::CpuDevice>(runtime::PoolOptions{.threads = threads})),
      evaluator_(options_.target, *device_, kWorthCompiling, options_.cache) {}

Result<std::unique_ptr<StagedModel>> StagedModel::make(const onnx::Model& model,
                                                       const CompileOptions& options,
                                                       const StagedOptions& staged) {
  if (!target::runs_on_host(options.target)) {
    return make_error(ErrorCode::kUnsupported,
                      "shapes follow from data, which needs code for this machine's processor, "
                      "not for {}",
                      options.target.name);
  }
  TESSERA_TRY(const onnx::ResolvedInputs declared,
              onnx::resolve_inputs(model.graph, options.import));
  const int threads = staged.threads > 0 ? staged.threads : options.target.code_threads();
  auto out = std::unique_ptr<StagedModel>(new StagedModel(options, threads));
  onnx::Model part = model;
  part.graph.inputs.clear();
  for (const onnx::GraphInput& input : declared.inputs) {
    std::erase_if(part.graph.initializers,
                  [&](const onnx::Initializer& i) { return i.name == input.name; });
    if (input.value) {
      part.graph.initializers.push_back({input.name, *input.value});
      continue;
    }
    if (!input.foreign.empty()) {
      return make_error(ErrorCode::kUnsupported, "input '{}' is of type {}", input.name,
                        input.foreign);
    }
    part.graph.inputs.push_back({input.name, "undefined", false, {}});
    out->input_names_.push_back(input.name);
    out->input_types_.push_back(input.type);
  }
  for (const onnx::ValueInfo& v : model.graph.outputs) out->output_names_.push_back(v.name);
  out->model_nodes_ = static_cast<std::int64_t>(model.graph.nodes.size());
  out->whole_ = {model.ir_version, model.opsets, model.producer, {}, model.functions};
  out->whole_.graph.name = model.graph.name;
  out->whole_.graph.outputs = model.graph.outputs;
  out->context_ = std::make_unique<SectionContext>(
      SectionContext{out->whole_, out->evaluator_, *out->device_, out->options_,
                     staged.often ? kRunsOfAProgram : kRunsOfACommand});
  out->first_ = std::make_unique<Section>(std::move(part), *out->context_);
  return out;
}

Result<std::vector<StagedModel::Tensor>> StagedModel::outputs() const {
  std::vector<Tensor> out;
  for (const onnx::ValueInfo& v : whole_.graph.outputs) {
    const std::optional<DType> dtype = dtype_from_text(v.type);
    if (!dtype) {
      return make_error(ErrorCode::kUnsupported,
                        "output '{}' follows from data and the model declares it as {}", v.name,
                        v.type);
    }
    Tensor t{v.name, *dtype, v.has_shape, {}};
    for (const onnx::Dim& d : v.dims) t.shape.push_back(d.size);
    out.push_back(std::move(t));
  }
  return out;
}

Result<void> StagedModel::prepare() { return first_->prepare(input_types_); }

Result<Tensors> StagedModel::run(const Tensors& inputs) {
  if (inputs.size() != input_types_.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{} inputs given, the model has {}",
                      inputs.size(), input_types_.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const graph::TensorType given{inputs[i].dtype(), inputs[i].shape()};
    if (given == input_types_[i]) continue;
    return make_error(ErrorCode::kInvalidArgument, "input {} must be {}, not {}", input_names_[i],
                      graph::to_text(input_types_[i]), graph::to_text(given));
  }
  context_->host_nodes = 0;
  return first_->run(inputs);
}

Result<StagedRun> run_staged(const onnx::Model& model,
                             const std::map<std::string, HostTensor>& inputs,
                             const CompileOptions& options, const StagedOptions& staged) {
  CompileOptions how = options;
  how.import.override_declared = true;
  for (const auto& [name, tensor] : inputs) {
    if (!how.import.values.contains(name)) how.import.shapes[name] = tensor.shape();
  }
  TESSERA_TRY(const auto made, StagedModel::make(model, how, staged));
  Tensors given;
  for (const std::string& name : made->input_names()) {
    const auto found = inputs.find(name);
    if (found == inputs.end())
      return make_error(ErrorCode::kInvalidArgument, "input '{}' is not given", name);
    given.push_back(found->second);
  }
  StagedRun out;
  TESSERA_TRY(out.outputs, made->run(given));
  out.host_nodes = made->host_nodes();
  out.model_nodes = made->model_nodes();
  out.compiled_kernels = made->compiled_kernels();
  return out;
}

}  // namespace tessera::app
