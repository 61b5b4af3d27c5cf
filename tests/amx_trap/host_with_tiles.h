// This machine as one that multiplies on tile registers.
#pragma once

#include <optional>

#include "tessera/machine/target/features.h"
#include "tessera/machine/target/target.h"
#include "tests/amx_trap/amx_trap.h"

namespace tessera::testing {

// For code whose tile instructions run here or are executed by the handler; none on other
// architectures. Code for it loads under the name of the host, which may not have the features.
inline std::optional<target::Target> host_with_tiles() {
  if (target::host().arch != target::Arch::kX86_64 || !enable_amx()) return std::nullopt;
  target::Target out = target::host();
  out.features += ",+amx-tile,+amx-bf16,+amx-int8";
  target::derive_from_features(out);
  return out;
}

}  // namespace tessera::testing
