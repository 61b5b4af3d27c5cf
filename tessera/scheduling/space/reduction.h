// Reductions without a register tile of products: pools, norms, softmax, depthwise convolution.
#pragma once

#include <optional>

#include "tessera/scheduling/space/context.h"

namespace tessera::space {

// A reduction whose lanes are elements of the output: depthwise convolution, pooling with channels
// last, sums over leading axes. Its epilogue runs on the tile in registers. False when the lanes
// would not be contiguous in memory.
bool schedule_lanewise(Context& context, std::size_t stage);

// A depthwise convolution, with its epilogue, that a contraction alone reads. The contraction may
// compute each of its rows when it needs it, and then it stays in the caches.
struct WindowFront {
  std::size_t window = 0, front = 0, product = 0;  // stages; without an epilogue one is the other
};
std::optional<WindowFront> find_window_front(const Analysis& analysis);
// The same where it was decided: the contraction then serves the window.
std::optional<WindowFront> served_front(const Context& context);

// The stage, and with it the stages before it that are needed row by row: softmax, layer
// normalization, sums along the contiguous axis.
void schedule_rows_of(Context& context, std::size_t nest);

}  // namespace tessera::space
