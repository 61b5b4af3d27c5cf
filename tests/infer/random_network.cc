#include "random_network.h"

namespace tessera::infer::testing {
namespace {

float draw(Rng& rng) { return static_cast<float>(2 * rng.uniform() - 1); }

nn::Normalizer random_normalizer(std::int64_t columns, bool silent, Rng& rng) {
  nn::Normalizer out;
  for (std::int64_t c = 0; c < columns; ++c) {
    out.shift.push_back(draw(rng));
    out.scale.push_back(silent && c % 4 == 3 ? 0 : 0.5f + static_cast<float>(rng.uniform()));
  }
  return out;
}

}  // namespace

nn::TrainedNetwork random_network(const std::string& name, std::int64_t columns,
                                  std::int64_t context, bool silent, std::uint64_t seed,
                                  const nn::Hyper& hyper) {
  const nn::Hyper small = {{"hidden", 16}, {"heads", 2},    {"ffn", 24}, {"layers", 1},
                           {"depth", 3},   {"slots", 4},    {"n_d", 8},  {"n_a", 8},
                           {"steps", 2},   {"max_rows", 32}};
  nn::Hyper sizes = hyper;
  for (const auto& [key, value] : nn::find_network(name).value()->defaults) {
    if (const auto found = small.find(key); found != small.end() && hyper.empty()) {
      sizes[key] = found->second;
    }
  }
  Rng rng(seed);
  nn::TrainedNetwork out;
  out.spec = nn::make_spec(name, sizes, columns, context).value();
  const nn::Network network = nn::build_network(out.spec, {.batch = 1, .rows = 1}).value();
  for (const nn::Parameter& p : network.parameters) {
    out.weights[p.name] = nn::initial_value(p, rng);
  }
  out.rows = random_normalizer(columns, silent, rng);
  out.context = random_normalizer(context, false, rng);
  return out;
}

feature::FeatureSet random_features(const nn::TrainedNetwork& network, std::size_t candidates,
                                    std::int64_t most_rows, std::uint64_t seed) {
  Rng rng(seed);
  const bool tree = nn::find_network(network.spec.network).value()->rows == feature::Rows::kLoop;
  feature::FeatureSet set;
  set.columns = static_cast<std::size_t>(network.spec.columns);
  set.context_columns = static_cast<std::size_t>(network.spec.context);
  for (std::size_t i = 0; i < candidates; ++i) {
    const std::int64_t rows = 1 + rng.below(most_rows);
    std::vector<float> values;
    for (std::int64_t v = 0; v < rows * network.spec.columns; ++v) values.push_back(draw(rng));
    set.add(values);
    for (std::int64_t c = 0; c < network.spec.context; ++c) set.context.push_back(draw(rng));
    for (std::int64_t r = 0; r < rows && tree; ++r) {
      set.parents.push_back(static_cast<std::int16_t>(r == 0 ? -1 : rng.below(r + 1) - 1));
    }
  }
  return set;
}

}  // namespace tessera::infer::testing
