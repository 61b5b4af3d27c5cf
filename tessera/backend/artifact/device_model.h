// A model for a GPU in memory: what its artifact would hold, without a library around it.
#pragma once

#include <memory>

#include "tessera/backend/artifact/device_program.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/backend/artifact/model_program.h"
#include "tessera/machine/runtime/aligned_buffer.h"

namespace tessera::artifact {

class DeviceModel {
 public:
  // kUnsupported names operators that have no kernels. No device is needed.
  static Result<std::shared_ptr<const DeviceModel>> make(const graph::Graph& graph,
                                                         const task::TaskGraph& tasks,
                                                         const target::Target& target,
                                                         const exec::ModelOptions& options,
                                                         const std::string& name);

  const Metadata& metadata() const { return metadata_; }

  // kUnavailable: there is no driver or no device. What it returns keeps `model`.
  static Result<std::unique_ptr<LoadedArtifact>> open(std::shared_ptr<const DeviceModel> model,
                                                      const LoadOptions& options);

 private:
  DeviceModel() = default;

  Metadata metadata_;
  DeviceCode code_;
  DeviceProgram program_;
  runtime::AlignedBuffer weights_;
  std::vector<tsr_tensor_info> inputs_, outputs_;
  std::vector<tsr_copy> copies_;
  std::vector<exec::IndexCheck> index_checks_;
  std::vector<tsr_index_check> check_rows_;
  tsr_model_info info_{};
  tsr_device_program tables_{};  // point into the above
};

}  // namespace tessera::artifact
