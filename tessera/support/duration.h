// Spans of time as users write them: "90s", "5m", "1h30m", "250ms", or seconds without a unit.
#pragma once

#include <string>

#include "tessera/support/result.h"

namespace tessera {

// Seconds, 0 or more.
Result<double> parse_duration(const std::string& text);
// "10m", "1h30m", "0.05s": what parse_duration() reads.
std::string to_duration(double seconds);

}  // namespace tessera
