// Which numbers eight bits stand for.
#pragma once

#include "tessera/app/quantize/calibrate.h"

namespace tessera::app {

enum class RangeMethod : std::uint8_t {
  kMinMax,      // all that was seen
  kPercentile,  // all but the outermost kCutShare
  kEntropy,     // least divergence of the rounded distribution
  kMse,         // least mean squared error
};
inline constexpr double kCutShare = 1e-4;

struct Range {
  double low = 0, high = 0;  // 0 is between them
};
// Methods other than kMinMax need histograms.
Range choose_range(const Observed& seen, RangeMethod method);

// value = (byte - zero) * scale for unsigned bytes.
struct ByteScale {
  float scale = 1;
  std::int64_t zero = 0;
};
ByteScale byte_scale(const Range& range);
// The same for floats of eight bits (e4m3), whose zero point is 0.
ByteScale short_float_scale(const Range& range);

}  // namespace tessera::app
