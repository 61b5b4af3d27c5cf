// What decides the points of a model where nothing was measured.
#pragma once

#include "tessera/frontend/plan/convolution.h"
#include "tessera/machine/target/target.h"

namespace tessera::plan {

// The one place that knows what pays on a kind of machine; the defaults of Rules suit CPUs.
Rules rules_for(const target::Target& target);

}  // namespace tessera::plan
