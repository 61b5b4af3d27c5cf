// Stages that choose a row of a small matrix by an index: the transforms of Winograd convolution.
#pragma once

#include "tessera/space/context.h"

namespace tessera::space {

// True if values select by `axis == constant` or `axis mod constant == constant` over a few values:
// unrolled, the selection costs nothing.
bool is_transform(const Stage& stage);

// The stage and the transform before it, one vector of the last axis at a time.
void schedule_transform(Context& context, std::size_t stage);

}  // namespace tessera::space
