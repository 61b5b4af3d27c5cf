// What every form of an artifact is made from.
#pragma once

#include <string>
#include <vector>

#include "tessera/artifact/metadata.h"
#include "tessera/exec/compile_model.h"
#include "tessera/graph/graph.h"

namespace tessera::artifact {

// A model and its kernels: loops of a processor, or code of a GPU.
struct ModelProgram {
  exec::CompiledModel model;
  std::vector<exec::LoweredTask> lowered;
  std::vector<runtime::Binary> binaries;
  bool branches = false;  // of a GPU: there is memory to run them side by side
};

// kUnsupported names operators that have no kernels.
Result<ModelProgram> make_model_program(graph::Graph graph, const task::TaskGraph& tasks,
                                        const target::Target& target,
                                        const exec::ModelOptions& options);

// The machine that the library itself is for: GPUs have code inside one of this architecture.
const target::Target& library_target(const target::Target& target);

// Without what follows from files: their names, sizes and digests.
Metadata describe(const exec::CompiledModel& model, const std::string& name);

int building_threads(const exec::ModelOptions& options);

}  // namespace tessera::artifact
