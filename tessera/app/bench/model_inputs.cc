#include "tessera/app/bench/model_inputs.h"

#include <algorithm>

#include "tessera/backend/exec/index_checks.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

// Per input: the rows of the smallest table that it chooses rows of. 0: it chooses none.
std::vector<std::int64_t> limits(std::size_t inputs, const std::vector<exec::IndexCheck>& checks) {
  std::vector<std::int64_t> out(inputs, 0);
  for (const exec::IndexCheck& check : checks) {
    for (const std::int64_t rows : check.sizes) {
      std::int64_t& least = out[check.input];
      least = least == 0 ? rows : std::min(least, rows);
    }
  }
  return out;
}

}  // namespace

std::vector<HostTensor> random_model_inputs(const std::vector<std::string>& names,
                                            const std::vector<graph::TensorType>& types,
                                            std::uint64_t seed,
                                            const std::vector<std::int64_t>& below) {
  Rng rng(seed);
  std::int64_t longest = 1;
  for (const graph::TensorType& type : types) {
    for (std::size_t i = 1; i < type.shape.size(); ++i) longest = std::max(longest, type.shape[i]);
  }
  std::vector<HostTensor> inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    HostTensor t = random_tensor(types[i].dtype, types[i].shape, rng);
    if (!is_float(types[i].dtype)) {
      const bool mask = names[i].find("mask") != std::string::npos;
      // Of a batch: sequences of length 0 make many models divide by zero.
      const bool length = types[i].shape.size() == 1 &&
                          (names[i].find("len") != std::string::npos && !mask) && longest > 1;
      const std::int64_t limit = i < below.size() && below[i] > 0 ? below[i] : 2;
      for (std::int64_t k = 0; k < t.size(); ++k) {
        t.set_int(k, mask ? 1 : length ? longest : rng.below(limit));
      }
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

std::vector<HostTensor> random_model_inputs(const graph::Graph& graph, std::uint64_t seed) {
  std::vector<std::string> names;
  std::vector<graph::TensorType> types;
  for (const graph::ValueId id : graph.inputs) {
    names.push_back(graph.value(id).name);
    types.push_back(graph.type(id));
  }
  return random_model_inputs(names, types, seed,
                             limits(names.size(), exec::find_index_checks(graph)));
}

std::vector<HostTensor> random_model_inputs(const exec::CompiledModel& model, std::uint64_t seed) {
  return random_model_inputs(model.input_names, model.input_types, seed,
                             limits(model.input_names.size(), model.index_checks));
}

}  // namespace tessera::app
