// How many samples a candidate gets: few if it is clearly slow, more until they agree.
#pragma once

#include <functional>
#include <vector>

namespace tessera::measure {

struct SamplerOptions {
  int min_samples = 3, max_samples = 12;
  double sample_s = 1e-3;
  double limit_s = 0.3;    // of timed running; one sample is always taken
  double incumbent_s = 0;  // 0: nothing to lose against
  double loser_factor = 1.5;
  bool full = false;  // max_samples whatever they say
};

struct Sampled {
  std::vector<double> samples_s;  // seconds per call
  bool censored = false;          // clearly slower than the incumbent
  bool disturbed = false;         // fewer than min_samples without waiting for a core
  double wait_s = 0, timed_s = 0;
};

// `call` must have run before. `before_call`, if any, runs outside the clock before each call (cold
// caches), and each sample is then a single call.
Sampled take_samples(const std::function<void()>& call, const std::function<void()>& before_call,
                     const SamplerOptions& options);

// Whether the median of these samples is known to about `precision`, relative: from the distance of
// the quartiles and their number.
bool is_tight(const std::vector<double>& samples_s, double precision);

}  // namespace tessera::measure
