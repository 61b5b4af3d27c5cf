// Operators of a model that are no kernels but functions of the C runtime.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/backend/artifact/metadata.h"
#include "tessera/backend/exec/compile_model.h"

namespace tessera::artifact {

// What a tsr_host_call says, and the scratch that its function needs.
struct HostCall {
  int function = 0;                         // TSR_HOST_...
  std::vector<TensorDescription> operands;  // inputs, then outputs
  std::vector<std::int64_t> integers;
  std::int64_t scratch_bytes = 0;
};

// By the operator's name in the graph.
bool has_host_function(std::string_view op);

// Of a step that is no kernel. kUnsupported: the runtime has no function for it.
Result<HostCall> host_call(const exec::CompiledModel::Step& step);

}  // namespace tessera::artifact
