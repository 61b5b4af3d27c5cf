// What training keeps, without torch.
#pragma once

#include <map>
#include <string>

#include "tessera/support/host_tensor.h"

namespace tessera::train {

using Weights = std::map<std::string, HostTensor>;  // by parameter, f32

// What a step leaves behind besides the weights: the moments of Adam.
struct OptimizerState {
  Weights first, second;
  std::int64_t steps = 0;
};

}  // namespace tessera::train
