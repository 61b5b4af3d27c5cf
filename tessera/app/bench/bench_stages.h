// Times a model of which some shapes follow from data, as the library runs it.
#pragma once

#include <string>

#include "tessera/app/bench/bench_model.h"

namespace tessera::app {

// `compile` has the threads of the options. Without a profile: what runs follows from the data.
// kInvalidArgument: a plan beside it, or a profile, is asked for.
Result<ModelBenchResult> bench_stages(const std::string& spec, const onnx::Model& model,
                                      const CompileOptions& compile,
                                      const ModelBenchOptions& options);

}  // namespace tessera::app
