// Values of the points of 1x1 convolutions, beside those that convolutions share.
#pragma once

namespace tessera::plan {

// As it is, and in one kernel with the depthwise convolution that it alone reads, whose rows are
// computed when they are needed.
inline constexpr const char* kChained = "chained";

}  // namespace tessera::plan
