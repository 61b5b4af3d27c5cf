// Kernels that wait themselves for the one before them to end, so that they may be started while it
// does.
#pragma once

#include "tessera/machine/target/target.h"

namespace tessera::target {

// Whether kernels for this target wait.
inline bool kernels_wait(const Target& target) {
  return target.kind == Kind::kCuda && target.gpu.capability >= 90;
}

}  // namespace tessera::target
