// What integers were before they were rounded.
#pragma once

#include <optional>

#include "tessera/lang/te/dag.h"

namespace tessera::te {

// A Dag of the same inputs whose only output has, in f64, the numbers whose nearest integers,
// saturated to the type, are output `output`: an integer that was rounded from a float (to nearest,
// up, down, towards zero) or a comparison of floats, moved, clipped and taken the largest or
// smallest of afterwards. Halves are the borders: who computes a little more or less may come to
// the other side of one. Empty: nothing was rounded, or more was computed of the integers
// afterwards; whoever computes them gets the same.
std::optional<Dag> before_rounding(const Dag& dag, std::size_t output);

}  // namespace tessera::te
