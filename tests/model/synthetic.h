// Made-up candidates whose throughput follows from their features.
#pragma once

#include <cstdint>

#include "tessera/learn/model/cost_model.h"

namespace tessera::model::testing {

// `count` candidates in `groups` tasks, of one to three rows with 12 columns. Seconds are a sum
// over rows of a bumpy function of five columns; labels are best over seconds within each task.
TrainingSet make_synthetic(std::size_t count, std::int32_t groups, std::uint64_t seed);

// Share of pairs of one group, with labels at least 0.05 apart, that the scores put in order.
double pair_accuracy(const TrainingSet& data, const std::vector<float>& scores);

}  // namespace tessera::model::testing
