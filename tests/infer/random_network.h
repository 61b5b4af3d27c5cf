// Small networks with random weights, and candidates for them.
#pragma once

#include "tessera/learn/nn/network_file.h"
#include "tessera/scheduling/feature/feature_set.h"

namespace tessera::infer::testing {

// `hyper` replaces the small sizes used otherwise. Normalisers are random; every fourth column says
// nothing when `silent`.
nn::TrainedNetwork random_network(const std::string& name, std::int64_t columns,
                                  std::int64_t context, bool silent, std::uint64_t seed,
                                  const nn::Hyper& hyper = {});

// `candidates` with 1 to `most_rows` rows each, as the network reads them.
feature::FeatureSet random_features(const nn::TrainedNetwork& network, std::size_t candidates,
                                    std::int64_t most_rows, std::uint64_t seed);

}  // namespace tessera::infer::testing
