// Random tensor expressions whose value does not hang on rounding: what schedules are tried on.
#pragma once

#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/rng.h"

namespace tessera::fuzz {

struct RandomDag {
  te::Dag dag;
  std::vector<HostTensor> inputs;  // index inputs stay in range of what they index
  double tolerance = 0;            // allowed |got - want| / max(1, |want|) of float outputs
};

// One to four operations: elementwise with broadcasting, reversed, strided, shifted and padded
// indices, gathers, reductions over zero to three axes with every reducer, several consumers and
// outputs. Extents are 1 to 17. Floats are never compared or truncated after they were rounded, so
// that any legal order of evaluation gives nearly the same result.
RandomDag random_dag(Rng& rng);

}  // namespace tessera::fuzz
