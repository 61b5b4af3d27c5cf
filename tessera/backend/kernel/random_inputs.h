// Inputs to run an operation on when only its speed or its rounding matters.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/support/host_tensor.h"

namespace tessera::kernel {

// Random inputs for a Dag, the same on every machine: floats in [-1, 1), small integers; index
// inputs of gathers stay in range. Constants are smaller where tanh or erf would saturate else.
std::vector<HostTensor> random_inputs(const te::Dag& dag, std::uint64_t seed);

}  // namespace tessera::kernel
