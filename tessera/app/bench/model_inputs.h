// Random inputs of models, the same for everybody who is given the same seed.
#pragma once

#include <string>
#include <vector>

#include "tessera/backend/exec/compile_model.h"
#include "tessera/frontend/graph/graph.h"
#include "tessera/support/host_tensor.h"

namespace tessera::app {

// Floats in [-1, 1), integers `below` that of their input (none or 0: 0 or 1), masks all one,
// lengths the longest inner axis of another input.
std::vector<HostTensor> random_model_inputs(const std::vector<std::string>& names,
                                            const std::vector<graph::TensorType>& types,
                                            std::uint64_t seed,
                                            const std::vector<std::int64_t>& below = {});
// Indices are below the rows of the smallest table that they choose rows of: the words that a model
// knows.
std::vector<HostTensor> random_model_inputs(const graph::Graph& graph, std::uint64_t seed);
std::vector<HostTensor> random_model_inputs(const exec::CompiledModel& model, std::uint64_t seed);

}  // namespace tessera::app
