#include "candidates.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tessera::nn {
namespace {

const Hyper kSmall = {{"depth", 4}, {"ffn", 12}, {"heads", 2}, {"hidden", 8},   {"layers", 2},
                      {"n_a", 4},   {"n_d", 5},  {"slots", 3}, {"max_rows", 9}, {"steps", 3}};

HostTensor vector_tensor(const Shape& shape) { return HostTensor(DType::kF32, shape); }

}  // namespace

NetworkSpec small_spec(const std::string& network, const Hyper& hyper, std::int64_t context) {
  const auto entry = find_network(network);
  EXPECT_TRUE(entry.ok()) << entry.error().message;
  Hyper chosen;
  for (const auto& [name, value] : (*entry)->defaults) {
    const auto small = kSmall.find(name);
    if (small != kSmall.end()) chosen[name] = small->second;
  }
  for (const auto& [name, value] : hyper) chosen[name] = value;
  const auto spec = make_spec(network, chosen, 6, context);
  EXPECT_TRUE(spec.ok()) << spec.error().message;
  return *spec;
}

std::map<std::string, HostTensor> fresh_weights(const NetworkSpec& spec, std::uint64_t seed) {
  const auto network = build_network(spec, {.batch = 1, .rows = 1});
  EXPECT_TRUE(network.ok()) << network.error().message;
  Rng rng(seed);
  std::map<std::string, HostTensor> weights;
  for (const Parameter& p : network->parameters) weights[p.name] = initial_value(p, rng);
  return weights;
}

Candidate random_candidate(const NetworkSpec& spec, std::size_t rows, Rng& rng) {
  const auto draw = [&](std::int64_t count) {
    std::vector<float> v;
    for (std::int64_t i = 0; i < count; ++i) v.push_back(static_cast<float>(4 * rng.uniform() - 2));
    return v;
  };
  Candidate c;
  for (std::size_t r = 0; r < rows; ++r) {
    c.rows.push_back(draw(spec.columns));
    c.parents.push_back(static_cast<int>(rng.below(static_cast<std::int64_t>(r) + 1)) - 1);
  }
  c.context = draw(spec.context);
  return c;
}

Outputs run(const NetworkSpec& spec, const std::map<std::string, HostTensor>& weights,
            const std::vector<Candidate>& candidates, std::size_t rows) {
  const auto batch = static_cast<std::int64_t>(candidates.size());
  const auto n = static_cast<std::int64_t>(rows);
  const auto network = build_network(spec, {.batch = batch, .rows = n});
  EXPECT_TRUE(network.ok()) << network.error().message;
  HostTensor row_values = vector_tensor({batch, n, spec.columns}), mask = vector_tensor({batch, n});
  HostTensor context = vector_tensor({batch, spec.context}), parents = vector_tensor({batch, n, n});
  for (std::size_t b = 0; b < candidates.size(); ++b) {
    const Candidate& c = candidates[b];
    for (std::size_t r = 0; r < c.rows.size(); ++r) {
      const std::size_t at = b * rows + r;
      std::copy(c.rows[r].begin(), c.rows[r].end(), row_values.as<float>() + at * c.rows[r].size());
      mask.as<float>()[at] = 1;
      if (c.parents[r] < 0) continue;
      parents.as<float>()[(b * rows + static_cast<std::size_t>(c.parents[r])) * rows + r] = 1;
    }
    std::copy(c.context.begin(), c.context.end(), context.as<float>() + b * c.context.size());
  }
  std::vector<HostTensor> inputs;
  for (const graph::ValueId id : network->graph.inputs) {
    const std::string& name = network->graph.value(id).name;
    const auto weight = weights.find(name);
    inputs.push_back(name == "rows"            ? row_values
                     : name == "mask"          ? mask
                     : name == "context"       ? context
                     : name == "parents"       ? parents
                     : weight != weights.end() ? weight->second
                                               : HostTensor());
  }
  const auto outputs = graph::evaluate(network->graph, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  const auto floats = [&](std::size_t i) {
    const HostTensor& t = (*outputs)[i];
    return std::vector<float>(t.as<float>(), t.as<float>() + t.size());
  };
  return {floats(0), floats(1), floats(2)};
}

}  // namespace tessera::nn
