// One inference of any model: as a whole, or in parts where shapes follow from data.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/app/compile/open_model.h"

namespace tessera::app {

struct RunOutputs {
  std::vector<std::string> names;
  std::vector<HostTensor> tensors;
  std::string plan_digest;  // of the code that ran; empty: a model in parts
};

// The inputs in the order of their names. `model` is null where it runs in parts.
using GiveInputs = std::function<Result<std::vector<HostTensor>>(
    const std::vector<std::string>& names, const std::vector<graph::TensorType>& types,
    const exec::CompiledModel* model)>;

// On the device at hand of options.target. The note says how much of a model runs node by node, and
// why. kUnsupported: shapes follow from data, and the target is not this machine.
Result<RunOutputs> run_once(ModelSource& source, const CompileOptions& options,
                            const GiveInputs& give_inputs);

}  // namespace tessera::app
