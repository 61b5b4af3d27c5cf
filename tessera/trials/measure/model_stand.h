// Candidates inside a running model: one run times a candidate of every task at once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/backend/exec/compile_model.h"
#include "tessera/frontend/graph/graph.h"
#include "tessera/frontend/task/task.h"
#include "tessera/support/host_tensor.h"
#include "tessera/trials/measure/run_stand.h"

namespace tessera::measure {

// A model of this machine's processor, with what its kernels are exchanged by.
struct PlacedModel {
  exec::CompiledModel model;       // whose kernels candidates are compared with
  std::vector<std::size_t> tasks;  // by kernel of the model: number of the measurer's task
  // By step and place: the constant that is read there, as it was before packing; names need not be
  // unique.
  std::map<std::pair<std::size_t, std::size_t>, graph::ValueId> reads;
  std::map<graph::ValueId, HostTensor> constants;
  std::vector<HostTensor> inputs;
};

// Compiles a model. `keys` are those of the measurer's tasks in their order; kernels of others are
// not exchanged. Call it before workers are forked: they have its memory without a copy.
Result<std::shared_ptr<const PlacedModel>> place_model(const graph::Graph& graph,
                                                       const task::TaskGraph& tasks,
                                                       const std::vector<std::string>& keys,
                                                       std::vector<HostTensor> inputs,
                                                       const target::Target& target,
                                                       const exec::ModelOptions& options);

// For MeasureOptions::in_place. In each place of a task the model's own kernel runs first, then the
// candidate on the same inputs into guarded memory: rounding does not add up from kernel to kernel,
// and what is wrong has one owner. Only then is it timed, in the memory of the model, in turns with
// the model's own kernel and other candidates of the task, and with the clock read between any two
// kernels; what is clearly slower is given up early. Then it is checked again.
std::function<Result<std::unique_ptr<InPlaceStand>>(const StandParts& parts)> in_place_stand(
    std::shared_ptr<const PlacedModel> model);

// Runs of a model of `model_s` seconds that time a batch on a quiet machine, where so many
// candidates of a task take turns.
int runs_in_place(std::size_t turns, bool final, double model_s, const MeasureOptions& options);

}  // namespace tessera::measure
