// The kernels of a model, each compared with the interpreter on what it reads in the model.
#pragma once

#include <set>
#include <string>

#include "tessera/backend/exec/model_runner.h"

namespace tessera::app {

// Whether values are rounded on the way to an output to a type that has few of them, floats of 16
// or 8 bits or integers of 16 or 8: what the outputs tell of the kernels then is vague. Products
// that round what they multiply round to bytes.
bool is_narrow(const graph::Graph& graph);

struct KernelsCheck {
  std::int64_t kernels = 0;  // that were compared
  double worst = 0;          // of what is allowed (kernel::worst_error): above 1 is wrong
  std::string worst_node;    // the model's node of that one
};

// Runs `runner`, whose inputs are set and whose model was made of `graph` and `tasks`, step by
// step. Every output of every kernel is compared at all points, or at sampled ones where it is
// large. What rounding decides in one kernel is the next one's input on both sides, so that
// integers stay exact however deep the network is. Tasks whose keys are in `agreed` are run and not
// compared again; those that agree are added: for models whose equal tasks have equal schedules.
Result<KernelsCheck> check_kernels(const graph::Graph& graph, const task::TaskGraph& tasks,
                                   const exec::CompiledModel& model, exec::ModelRunner& runner,
                                   std::set<std::string>* agreed = nullptr);

}  // namespace tessera::app
