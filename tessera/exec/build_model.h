// Ahead-of-time output for GPUs: the model with the code of its kernels as bytes.
#pragma once

#include <vector>

#include "tessera/exec/compile_model.h"

namespace tessera::exec {

// Nothing can be timed: steps for CUDA may run side by side if so many branches end in one of them.
// Fewer may lose on an H200 (ShuffleNet-V2, ResNet-50 in f32).
inline constexpr std::size_t kManyBranches = 3;

bool has_branches(const graph::Graph& graph, const task::TaskGraph& tasks,
                  const target::Target& target);

// As lower_model, for any GPU, whose plan of the memory needs the code: Step::kernel is an index
// into `code`. No device is needed. `branches`: memory for those that run side by side.
Result<CompiledModel> build_model(graph::Graph graph, const task::TaskGraph& tasks,
                                  const target::Target& target, const ModelOptions& options,
                                  bool branches, std::vector<runtime::Binary>* code);

}  // namespace tessera::exec
