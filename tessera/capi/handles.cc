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
  } else {
    // load() compared the digest of the weights.
    TESSERA_TRY(session->loaded, artifact::load_artifact(
                                     model->artifact, {.threads = wanted, .trust_weights = true}));
  }
  session->model = std::move(model);
  return session;
}

Result<void> SessionState::run(const std::vector<HostTensor>& given) {
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

}  // namespace tessera::capi
