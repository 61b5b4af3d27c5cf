// Kernels that wait themselves for the one before them to end, so that they may be started while it
// does. Their symbols tell, in text and in machine code.
#pragma once

#include <string_view>

#include "tessera/target/target.h"

namespace tessera::target {

// Whether kernels for this target wait.
inline bool kernels_wait(const Target& target) {
  return target.kind == Kind::kCuda && target.gpu.capability >= 90;
}

inline constexpr std::string_view kSymbolPrefix = "tsr", kWaitingPrefix = "tsrw";

inline bool waits(std::string_view symbol) { return symbol.starts_with(kWaitingPrefix); }

}  // namespace tessera::target
