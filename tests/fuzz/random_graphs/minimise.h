// The smallest part of a failing model that still fails.
#pragma once

#include <functional>

#include "trace.h"

namespace tessera::fuzz {

// Whether a case fails in the way that is looked for. A case that the oracle refuses does not.
using Fails = std::function<bool(const Case& c)>;

// Fewer outputs, nodes replaced by inputs with their values, constants and inputs of smaller sizes,
// as long as it fails. `c` must fail.
Case minimise(Case c, const Fails& fails);

}  // namespace tessera::fuzz
