// Constant divisors that a product may stand for.
#pragma once

#include <optional>

#include "tessera/support/host_tensor.h"

namespace tessera::graph {

// 1 / c, element by element, when multiplying by it may stand for dividing by c: exactly for powers
// of two, otherwise with one rounding more. A reciprocal that is not a normal number never does.
std::optional<HostTensor> reciprocal(const HostTensor& c, bool may_round);

}  // namespace tessera::graph
