// An artifact behind a table of functions.
#pragma once

#include <memory>
#include <utility>

#include "tessera/backend/artifact/load_artifact.h"

namespace tessera::artifact {

// `Api` is tsr_model_api or tsr_device_api; `owner` holds what the context needs.
template <class Api, class Owner>
class OpenedArtifact final : public LoadedArtifact {
 public:
  OpenedArtifact(Metadata metadata, Owner owner, const Api* api, tsr_context* context)
      : LoadedArtifact(std::move(metadata)),
        owner_(std::move(owner)),
        api_(api),
        context_(context) {}
  ~OpenedArtifact() override { api_->close(context_); }

  Result<void> run_in_place(const void* const* inputs, void* const* outputs) override {
    return to_result(api_->run(context_, inputs, outputs, nullptr));
  }
  Result<void> run_tensors(const tsr_dl_tensor* inputs, const tsr_dl_tensor* outputs,
                           void* stream) override {
    return to_result(api_->run_tensors(context_, inputs, outputs, stream));
  }

 private:
  Owner owner_;  // released after the context is closed
  const Api* api_;
  tsr_context* context_;
};

template <class Api, class Owner>
std::unique_ptr<LoadedArtifact> opened(Metadata metadata, Owner owner, const Api* api,
                                       tsr_context* context) {
  return std::make_unique<OpenedArtifact<Api, Owner>>(std::move(metadata), std::move(owner), api,
                                                      context);
}

}  // namespace tessera::artifact
