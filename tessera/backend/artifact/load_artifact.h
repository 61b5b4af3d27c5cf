// Runs an artifact in this process, through the same C interface that its users have.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/backend/artifact/metadata.h"
#include "tessera/backend/artifact/runtime/types.h"

namespace tessera::artifact {

struct LoadOptions {
  int threads = 0;           // 0: one per core
  tsr_host* host = nullptr;  // runs parallel loops instead of the artifact's own threads
  bool trust_weights = false;
  int device = 0;         // of GPUs: which one
  void* queue = nullptr;  // of OpenCL: the caller's, as of tsr_open_options
  int variant = 0;        // of processors, counted from 1; 0: the first that the machine fits
};

// An open context of the artifact. One run at a time.
class LoadedArtifact {
 public:
  virtual ~LoadedArtifact() = default;

  const Metadata& metadata() const { return metadata_; }

  // One tensor per input, in the order of the metadata; type and shape are checked.
  Result<std::vector<HostTensor>> run(const std::vector<HostTensor>& inputs);
  // The same in place: pointers as the C interface takes them.
  virtual Result<void> run_in_place(const void* const* inputs, void* const* outputs) = 0;
  // Tensors of the host or the artifact's device, on a stream of the caller or null.
  virtual Result<void> run_tensors(const tsr_dl_tensor* inputs, const tsr_dl_tensor* outputs,
                                   void* stream) = 0;

 protected:
  explicit LoadedArtifact(Metadata metadata) : metadata_(std::move(metadata)) {}

 private:
  Metadata metadata_;
};

// What a function of an artifact returned.
Result<void> to_result(const tsr_status& status);

// `path` as read_metadata takes it; the weights file is found beside the library. kUnsupported:
// another architecture, a missing feature (named), another version of the interface, or not a
// shared library; kUnavailable: there is no driver or no device that it is for.
Result<std::unique_ptr<LoadedArtifact>> load_artifact(const std::string& path,
                                                      const LoadOptions& options = {});

}  // namespace tessera::artifact
