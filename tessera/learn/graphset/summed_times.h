// Times of configurations as sums of what their places take.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/learn/graphset/config_graph.h"

namespace tessera::graphset {

// By group of equal configurations (equal_configs) what it takes by least squares of relative
// errors: a sum over the values of all columns of all places. The groups of each half are told by
// the other half, so that none is told by its own times. Empty: there are too few groups for the
// values that they have, or too many values.
std::vector<double> summed_times(const ConfigGraph& graph,
                                 const std::vector<std::vector<std::int64_t>>& groups);

}  // namespace tessera::graphset
