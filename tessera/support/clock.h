// Wall time by a clock that never goes back.
#pragma once

#include <algorithm>
#include <chrono>

namespace tessera {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}
inline double seconds_since(Clock::time_point start) {
  return seconds_between(start, Clock::now());
}
inline double milliseconds_since(Clock::time_point start) { return 1e3 * seconds_since(start); }

// Negative once `end` has passed.
inline double seconds_until(Clock::time_point end) { return seconds_between(Clock::now(), end); }
// A time in the past is now, and one beyond three years is three years: no clock overflows.
inline Clock::time_point seconds_from_now(double seconds) {
  const std::chrono::duration<double> bounded(std::clamp(seconds, 0.0, 1e8));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(bounded);
}

}  // namespace tessera
