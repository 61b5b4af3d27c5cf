#include "tessera/app/capi/handles.h"

#include <algorithm>

#include "tessera/app/capi/dl_tensor.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/cpus.h"

namespace tessera::capi {
namespace {

std::vector<tsr_tensor_info> infos_of(const std::vector<artifact::TensorDescription>& tensors) {
  std::vector<tsr_tensor_info> infos;
  for (const artifact::TensorDescription& t : tensors) {
    const tsr_dl_type type = dl_type(t.dtype);
    infos.push_back({t.name.c_str(), to_text(t.dtype), type.code, type.bits,
                     static_cast<std::int32_t>(t.shape.size()), t.shape.data(),
                     std::ranges::count(t.shape, -1) > 0 ? -1 : t.bytes()});
  }
  return infos;
}

}  // namespace

void ModelState::describe() {
  input_infos = infos_of(inputs);
  output_infos = infos_of(outputs);
  for (std::size_t i = 0; staged && i < outputs.size(); ++i) {
    if (!staged->outputs[i].ranked) output_infos[i].rank = -1;
    if (!staged->outputs[i].ranked) output_infos[i].bytes = -1;
  }
}

Result<std::unique_ptr<app::StagedModel>> StagedSource::take(int threads) {
  {
    const std::lock_guard lock(mutex_);
    const bool as_made = threads == 0 || threads == options.target.code_threads();
    if (made_ && as_made) return std::move(made_);
  }
  return app::StagedModel::make(model, options, {.threads = threads, .often = true});
}

Result<std::shared_ptr<ModelState>> load_model(const std::string& path) {
  // Opened once to refuse early what could not run; each session opens its own context.
  TESSERA_TRY(const auto loaded, artifact::load_artifact(path, {.threads = 1}));
  auto model = std::make_shared<ModelState>();
  model->name = loaded->metadata().name;
  model->artifact = path;
  model->kind = loaded->metadata().device;
  model->plan_digest = loaded->metadata().plan_digest;
  model->inputs = loaded->metadata().inputs;
  model->outputs = loaded->metadata().outputs;
  model->describe();
  return model;
}

Result<std::unique_ptr<SessionState>> make_session(std::shared_ptr<const ModelState> model,
                                                   int threads) {
  auto session = std::make_unique<SessionState>();
  const int made_for = model->threads > 0 ? model->threads : target::default_threads();
  const int wanted = threads > 0 ? threads : made_for;
  if (model->staged) {
    TESSERA_TRY(session->staged, model->staged->take(threads));
  } else if (model->prepared) {
    TESSERA_TRY(session->device, runtime::open_device(model->kind, {.threads = wanted}));
    session->runner = std::make_unique<exec::ModelRunner>(model->prepared->model, *session->device);
  } else if (model->gpu) {
    TESSERA_TRY(session->loaded, artifact::DeviceModel::open(
                                     model->gpu, {.device = model->device, .queue = model->queue}));
  } else if (model->artifact.empty()) {
    return make_error(ErrorCode::kUnsupported, "{} is for {}, not for this machine: save it",
                      model->name, model->target.name);
  } else {
    // load() compared the digest of the weights.
    TESSERA_TRY(session->loaded, artifact::load_artifact(
                                     model->artifact, {.threads = wanted, .trust_weights = true}));
  }
  session->model = std::move(model);
  return session;
}

Result<void> SessionState::run(const tsr_dl_tensor* inputs, const tsr_dl_tensor* results,
                               void* stream) {
  const bool on_processor = model->kind == target::Kind::kCpu;
  if (on_processor && stream)
    return make_error(ErrorCode::kInvalidArgument, "a processor has no streams");
  const bool first = !was_run_;
  was_run_ = false;
  if (staged) {
    TESSERA_DO(run_stages(inputs, results));
  } else if (!on_processor) {
    TESSERA_DO(run_on_device(inputs, results, stream));
  } else if (runner) {
    // The first one finds out whether there is memory for the model.
    for (std::size_t i = 0; i < model->inputs.size() && first; ++i) {
      TESSERA_DO(runner->set_input(
          i, read_tensor(inputs[i], model->inputs[i].dtype, model->inputs[i].shape)));
    }
    TESSERA_DO(run_compiled(inputs, results));
  } else {
    TESSERA_DO(run_loaded(inputs, results));
  }
  was_run_ = true;
  return {};
}

Result<void> SessionState::run_stages(const tsr_dl_tensor* inputs, const tsr_dl_tensor* results) {
  std::vector<HostTensor> given;
  for (std::size_t i = 0; i < model->inputs.size(); ++i)
    given.push_back(read_tensor(inputs[i], model->inputs[i].dtype, model->inputs[i].shape));
  TESSERA_TRY(outputs_, staged->run(given));
  for (std::size_t i = 0; results && i < outputs_.size(); ++i) {
    const HostTensor& t = outputs_[i];
    TESSERA_DO(check_tensor(results[i], t.dtype(), t.shape(), model->kind,
                            fmt::format("output '{}'", model->outputs[i].name)));
  }
  for (std::size_t i = 0; results && i < outputs_.size(); ++i)
    scatter(outputs_[i].data(), outputs_[i].dtype(), outputs_[i].shape(), results[i]);
  return {};
}

Result<void> SessionState::run_compiled(const tsr_dl_tensor* inputs, const tsr_dl_tensor* results) {
  for (std::size_t i = 0; i < model->inputs.size(); ++i) {
    const artifact::TensorDescription& t = model->inputs[i];
    gather(inputs[i], t.dtype, t.shape, runner->input_data(i));
  }
  TESSERA_DO(runner->run());
  for (std::size_t i = 0; i < model->outputs.size(); ++i) {
    const artifact::TensorDescription& t = model->outputs[i];
    scatter(runner->output_data(i), t.dtype, t.shape, results[i]);
  }
  return {};
}

// Inputs without gaps are read where they are.
Result<void> SessionState::run_loaded(const tsr_dl_tensor* inputs, const tsr_dl_tensor* results) {
  std::vector<HostTensor> dense;
  std::vector<const void*> from;
  std::vector<void*> to;
  for (std::size_t i = 0; i < model->inputs.size(); ++i) {
    const artifact::TensorDescription& t = model->inputs[i];
    if (!is_dense(inputs[i], t.shape)) dense.push_back(read_tensor(inputs[i], t.dtype, t.shape));
    from.push_back(is_dense(inputs[i], t.shape) ? data_of(inputs[i]) : dense.back().data());
  }
  for (std::size_t i = 0; i < model->outputs.size(); ++i) {
    const artifact::TensorDescription& t = model->outputs[i];
    if (outputs_.size() == i) outputs_.emplace_back(t.dtype, t.shape);
    to.push_back(outputs_[i].data());
  }
  TESSERA_DO(loaded->run_in_place(from.data(), to.data()));
  for (std::size_t i = 0; i < model->outputs.size(); ++i) {
    const artifact::TensorDescription& t = model->outputs[i];
    scatter(outputs_[i].data(), t.dtype, t.shape, results[i]);
  }
  return {};
}

Result<HostTensor> SessionState::output(std::size_t index) const {
  if (!was_run_ || index >= model->outputs.size()) {
    return make_error(ErrorCode::kInvalidArgument, "no output {}{}", index,
                      was_run_ ? "" : ": nothing was run");
  }
  if (runner) return runner->output(index);
  if (!staged && !outputs_[index].data() && model->outputs[index].bytes() > 0)
    return make_error(ErrorCode::kInvalidArgument, "output {} is in memory of the device", index);
  return outputs_[index].clone();
}

// Tensors of the device as they are; outputs on the host are kept for output().
Result<void> SessionState::run_on_device(const tsr_dl_tensor* inputs, const tsr_dl_tensor* results,
                                         void* stream) {
  std::vector<HostTensor> dense;
  std::vector<tsr_dl_tensor> in(inputs, inputs + model->inputs.size());
  std::vector<tsr_dl_tensor> out(results, results + model->outputs.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!on_host(in[i]) || is_dense(in[i], model->inputs[i].shape)) continue;
    dense.push_back(read_tensor(in[i], model->inputs[i].dtype, model->inputs[i].shape));
    in[i].data = dense.back().data();
    in[i].strides = nullptr;
    in[i].byte_offset = 0;
  }
  outputs_.clear();
  for (std::size_t i = 0; i < out.size(); ++i) {
    outputs_.emplace_back();
    if (!on_host(out[i])) continue;
    outputs_.back() = HostTensor(model->outputs[i].dtype, model->outputs[i].shape);
    out[i].data = outputs_.back().data();
    out[i].strides = nullptr;
    out[i].byte_offset = 0;
  }
  TESSERA_DO(loaded->run_tensors(in.data(), out.data(), stream));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const artifact::TensorDescription& t = model->outputs[i];
    if (on_host(out[i])) scatter(outputs_[i].data(), t.dtype, t.shape, results[i]);
  }
  return {};
}

}  // namespace tessera::capi
