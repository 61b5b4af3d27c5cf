// Two models timed in turns, for as long as their times need to settle.
#pragma once

#include <functional>

namespace tessera::app {

struct PairTimes {
  double first_s = 0, second_s = 0;  // of the rounds that took least
  int rounds = 0;
};

struct PairTimingOptions {
  // Rounds go on while the first takes this much longer than it is known to; 0: nothing is known.
  double known_first_s = 0;
  double limit_s = 0.12;  // of all that was timed; a few rounds are always taken
};

// Each call runs a model and returns the seconds of it. Quiet machines settle within a few rounds:
// the quotients of the rounds that took least then agree.
PairTimes time_pair(const std::function<double()>& first, const std::function<double()>& second,
                    const PairTimingOptions& options);

}  // namespace tessera::app
