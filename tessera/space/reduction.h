// Reductions without a register tile of products: pools, norms, softmax, depthwise convolution.
#pragma once

#include "tessera/space/context.h"

namespace tessera::space {

// A reduction whose lanes are elements of the output: depthwise convolution, pooling with channels
// last, sums over leading axes. Its epilogue runs on the tile in registers. False when the lanes
// would not be contiguous in memory.
bool schedule_lanewise(Context& context, std::size_t stage);

// The stage, and with it the stages before it that are needed row by row: softmax, layer
// normalization, sums along the contiguous axis.
void schedule_rows_of(Context& context, std::size_t nest);

}  // namespace tessera::space
