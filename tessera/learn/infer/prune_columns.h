// A network without the columns that say nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/learn/nn/network_file.h"

namespace tessera::infer {

// A network that reads fewer columns and computes the same.
struct PrunedNetwork {
  nn::NetworkSpec spec;
  std::map<std::string, HostTensor> weights;
  std::vector<std::int32_t> columns;  // of the full rows, in the order the network reads them
};
// Leaves out columns whose scale is 0: they are 0 after normalising and add nothing to products.
// All columns stay where the network does more with them than multiply them by weights.
Result<PrunedNetwork> prune_columns(const nn::TrainedNetwork& network);

}  // namespace tessera::infer
