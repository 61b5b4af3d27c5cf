// What every form of an artifact is made from.
#pragma once

#include <string>
#include <vector>

#include "tessera/backend/artifact/metadata.h"
#include "tessera/backend/exec/compile_model.h"
#include "tessera/frontend/graph/graph.h"

namespace tessera::artifact {

// A model and the code of its kernels, by task.
struct ModelProgram {
  exec::CompiledModel model;
  std::vector<runtime::Binary> binaries;
  bool branches = false;  // of a GPU: there is memory to run them side by side
  bool tiles = false;     // of a CPU: kernels may use its tile registers
};

// kUnsupported names operators that have no kernels. `name`: prefix of a processor's symbols.
Result<ModelProgram> make_model_program(graph::Graph graph, const task::TaskGraph& tasks,
                                        const target::Target& target, const std::string& name,
                                        const exec::ModelOptions& options);

// The machine that the library itself is for: GPUs have code inside one of this architecture.
const target::Target& library_target(const target::Target& target);

// Without what follows from files: their names, sizes and digests.
Metadata describe(const exec::CompiledModel& model, const std::string& name);

int building_threads(const exec::ModelOptions& options);

}  // namespace tessera::artifact
