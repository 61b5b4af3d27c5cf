// The one way from what a user names to something that runs.
#pragma once

#include <memory>

#include "tessera/app/compile/compile_options.h"
#include "tessera/app/compile/model_source.h"
#include "tessera/backend/exec/prepared_model.h"
#include "tessera/machine/runtime/device/device.h"

namespace tessera::app {

// Found among those that earlier runs prepared, or decided (decide_model) and built. A model for
// this process is found by the content of its files, the build of Tessera, the machine and
// everything in the options that the code follows from; warnings of its import are told again. The
// next start finds it in options.cache, or the note says why not. One that a learned model judges
// is never kept. `device`, which must outlive the model, loads its code; null: this process.
// Errors are those of load_onnx, decide_model and exec::compile_model.
Result<exec::PreparedModel> prepare_model(ModelSource& source, const CompileOptions& options,
                                          runtime::Device* device = nullptr);

// A model on its device.
struct OpenModel {
  std::unique_ptr<runtime::Device> device;
  exec::PreparedModel prepared;

  const exec::CompiledModel& model() const { return prepared.model; }
};

// On the device at hand of the target's kind; a processor's has as many threads as the code.
Result<OpenModel> open_model(ModelSource& source, const CompileOptions& options);

}  // namespace tessera::app
