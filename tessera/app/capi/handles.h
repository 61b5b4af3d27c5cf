// What stands behind the opaque handles of tessera.h.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/capi/include/tessera/tessera.h"
#include "tessera/app/compile/decide_model.h"
#include "tessera/app/compile/staged_model.h"
#include "tessera/backend/artifact/device_model.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/backend/exec/model_runner.h"
#include "tessera/backend/exec/prepared_model.h"

namespace tessera::capi {

// A model of which some shapes follow from data. Each session has stages of its own; those that
// compiling made are the first one's.
struct StagedSource {
  onnx::Model model;
  app::CompileOptions options;
  std::vector<app::StagedModel::Tensor> outputs;

  // With so many threads, 0: as the model was compiled for.
  Result<std::unique_ptr<app::StagedModel>> take(int threads);
  void keep(std::unique_ptr<app::StagedModel> made) { made_ = std::move(made); }

 private:
  std::mutex mutex_;
  std::unique_ptr<app::StagedModel> made_;
};

// A model, compiled here or loaded from an artifact; sessions share it.
struct ModelState {
  std::string name;
  // Compiled here: what was decided, which save() asks for.
  std::function<Result<std::shared_ptr<const app::DecidedModel>>()> decided;
  target::Target target;
  // For this processor; with no other that follows it can only be saved: it is for another one.
  std::optional<exec::PreparedModel> prepared;
  std::shared_ptr<StagedSource> staged;              // or in stages,
  std::shared_ptr<const artifact::DeviceModel> gpu;  // or for a GPU,
  int device = 0;                                    // this one, or that of
  void* queue = nullptr;                             // the caller's of OpenCL
  std::string artifact;                              // else: its path
  target::Kind kind = target::Kind::kCpu;            // where it computes
  std::string plan_digest;                           // as Metadata has it; empty: not built yet
  std::vector<artifact::TensorDescription> inputs, outputs;  // -1: a size that follows from data
  std::vector<tsr_tensor_info> input_infos, output_infos;    // point into the two above

  int threads = 0;  // that the code was made for; 0: one per core

  void describe();  // fills the infos
};

struct SessionState {
  std::shared_ptr<const ModelState> model;
  // One of them, as the model is.
  std::unique_ptr<app::StagedModel> staged;
  std::unique_ptr<runtime::Device> device;
  std::unique_ptr<exec::ModelRunner> runner;
  std::unique_ptr<artifact::LoadedArtifact> loaded;

  // Tensors that were checked; of a model in stages the results are checked here, and may be null.
  Result<void> run(const tsr_dl_tensor* inputs, const tsr_dl_tensor* results, void* stream);
  // Of the last run, which must have been good. kInvalidArgument: in memory of the device, or there
  // is no such output.
  Result<HostTensor> output(std::size_t index) const;

 private:
  Result<void> run_stages(const tsr_dl_tensor* inputs, const tsr_dl_tensor* results);
  Result<void> run_compiled(const tsr_dl_tensor* inputs, const tsr_dl_tensor* results);
  Result<void> run_loaded(const tsr_dl_tensor* inputs, const tsr_dl_tensor* results);
  Result<void> run_on_device(const tsr_dl_tensor* inputs, const tsr_dl_tensor* results,
                             void* stream);

  bool was_run_ = false;
  std::vector<HostTensor>
      outputs_;  // of a loaded model or one in stages; without data: in memory of the device
};

Result<std::shared_ptr<ModelState>> load_model(const std::string& path);
Result<std::unique_ptr<SessionState>> make_session(std::shared_ptr<const ModelState> model,
                                                   int threads);

}  // namespace tessera::capi

struct tsr_model {
  std::shared_ptr<tessera::capi::ModelState> state;
};

struct tsr_session {
  std::unique_ptr<tessera::capi::SessionState> state;
};
