// The kernels of a model, each compared with the interpreter on what it reads in the model.
#pragma once

#include <string>

#include "tessera/backend/exec/model_runner.h"

namespace tessera::app {

struct KernelsCheck {
  std::int64_t kernels = 0;  // that were compared
  double worst = 0;          // of what is allowed (kernel::worst_error): above 1 is wrong
  std::string worst_node;    // the model's node of that one
};

// Runs `runner`, whose inputs are set and whose model was made of `graph` and `tasks`, step by
// step. Every output of every kernel is compared at all points, or at sampled ones where it is
// large. What rounding decides in one kernel is the next one's input on both sides, so that
// integers stay exact however deep the network is.
Result<KernelsCheck> check_kernels(const graph::Graph& graph, const task::TaskGraph& tasks,
                                   const exec::CompiledModel& model, exec::ModelRunner& runner);

}  // namespace tessera::app
