#include "tessera/capi/handles.h"

#include "tessera/capi/dl_tensor.h"
#include "tessera/target/cpus.h"

namespace tessera::capi {
namespace {

std::vector<tsr_tensor_info> infos_of(const std::vector<artifact::TensorDescription>& tensors) {
  std::vector<tsr_tensor_info> infos;
  for (const artifact::TensorDescription& t : tensors) {
    const tsr_dl_type type = dl_type(t.dtype);
    infos.push_back({t.name.c_str(), to_text(t.dtype), type.code, type.bits,
                     static_cast<std::int32_t>(t.shape.size()), t.shape.data(), t.bytes()});
  }
  return infos;
}

}  // namespace

void ModelState::describe() {
  input_infos = infos_of(inputs);
  output_infos = infos_of(outputs);
}

Result<std::shared_ptr<ModelState>> load_model(const std::string& path) {
  // Opened once to refuse early what could not run; each session opens its own context.
  TESSERA_TRY(const auto loaded, artifact::load_artifact(path, {.threads = 1}));
  auto model = std::make_shared<ModelState>();
  model->name = loaded->metadata().name;
  model->artifact = path;
  model->kind = loaded->metadata().device;
  model->inputs = loaded->metadata().inputs;
  model->outputs = loaded->metadata().outputs;
  model->describe();
  return model;
}

Result<std::unique_ptr<SessionState>> make_session(std::shared_ptr<const ModelState> model,
                                                   int threads) {
  auto session = std::make_unique<SessionState>();
  const int wanted = threads > 0 ? threads : target::default_threads();
  if (model->compiled) {
    session->pool = std::make_unique<runtime::ThreadPool>(runtime::PoolOptions{.threads = wanted});
    session->runner = std::make_unique<exec::ModelRunner>(*model->compiled, *session->pool);
  } else if (model->gpu) {
    TESSERA_TRY(session->loaded, artifact::DeviceModel::open(
                                     model->gpu, {.device = model->device, .queue = model->queue}));
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
  if (model->kind != target::Kind::kCpu) return run_on_device(inputs, results, stream);
  if (stream) return make_error(ErrorCode::kInvalidArgument, "a processor has no streams");
  TESSERA_DO(run_on_host(inputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) write_tensor(outputs[i], results[i]);
  return {};
}

Result<void> SessionState::run_on_host(const tsr_dl_tensor* inputs) {
  std::vector<HostTensor> given;
  for (std::size_t i = 0; i < model->inputs.size(); ++i) {
    given.push_back(read_tensor(inputs[i], model->inputs[i].dtype, model->inputs[i].shape));
  }
  if (loaded) {
    TESSERA_TRY(outputs, loaded->run(given));
    return {};
  }
  for (std::size_t i = 0; i < given.size(); ++i) TESSERA_DO(runner->set_input(i, given[i]));
  TESSERA_DO(runner->run());
  outputs.clear();
  for (std::size_t i = 0; i < model->outputs.size(); ++i) outputs.push_back(runner->output(i));
  return {};
}

// Tensors of the device as they are; outputs on the host are kept for copy_output.
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
  outputs.clear();
  for (std::size_t i = 0; i < out.size(); ++i) {
    outputs.emplace_back();
    if (!on_host(out[i])) continue;
    outputs.back() = HostTensor(model->outputs[i].dtype, model->outputs[i].shape);
    out[i].data = outputs.back().data();
    out[i].strides = nullptr;
    out[i].byte_offset = 0;
  }
  if (const Result<void> ran = loaded->run_tensors(in.data(), out.data(), stream); !ran.ok()) {
    outputs.clear();
    return ran.error();
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (on_host(out[i])) write_tensor(outputs[i], results[i]);
  }
  return {};
}

}  // namespace tessera::capi
