// The last comparison of a tuning: which of the models that were timed side by side is kept.
#pragma once

#include <cstddef>
#include <vector>

#include "tessera/runtime/timing.h"

namespace tessera::driver {

struct FinalChoice {
  std::size_t kept = 0;
  double before_s = 0, after_s = 0;  // the fastest of the models that were there before; the kept
  bool agreed = true;  // medians and fast samples both say so: else it is worth timing again
};

// `before`: as many at the front need no tuning or were the subject of it; the others are what was
// found. One of these is kept only where it is faster than all of those, so that `after_s` never
// exceeds `before_s`.
FinalChoice choose_final(const std::vector<runtime::Samples>& models, std::size_t before);

}  // namespace tessera::driver
