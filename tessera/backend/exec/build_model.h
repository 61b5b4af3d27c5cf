// Ahead-of-time output: the model with the code of its kernels as bytes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/backend/exec/compile_model.h"

namespace tessera::exec {

// Nothing can be timed: unless a plan says otherwise, steps for CUDA may run side by side if so
// many branches end in one of them. Fewer may lose on an H200 (ShuffleNet-V2, ResNet-50 in f32).
inline constexpr std::size_t kManyBranches = 3;

bool has_branches(const graph::Graph& graph, const task::TaskGraph& tasks,
                  const target::Target& target);

struct AheadOfTime {
  std::function<std::string(std::size_t task)> symbol;  // entry points of a processor's kernels
  bool branches = false;  // on a GPU: with memory for those that run side by side
};

// The model without loaded kernels, for any target: `kernels` stays empty, Step::kernel is an index
// into `code`. No device is needed. Who gives the graph away need not hold its constants twice.
Result<CompiledModel> build_model(graph::Graph graph, const task::TaskGraph& tasks,
                                  const target::Target& target, const ModelOptions& options,
                                  const AheadOfTime& ahead, std::vector<runtime::Binary>* code);

}  // namespace tessera::exec
