// How many samples a candidate gets: few if it is clearly slow, more until they agree.
#pragma once

#include <functional>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/trials/measure/options.h"

namespace tessera::measure {

struct SamplerOptions {
  int min_samples = 3, max_samples = 12;
  double sample_s = 1e-3;
  double limit_s = 0.3;    // of timed running; one sample is always taken
  double incumbent_s = 0;  // 0: nothing to lose against
  double loser_factor = 1.5;
  bool full = false;  // max_samples whatever they say
};

SamplerOptions sampler_options(const Trial& trial, const MeasureOptions& options);

struct Sampled {
  std::vector<double> samples_s;  // seconds per call
  bool censored = false;          // clearly slower than the incumbent
  bool disturbed = false;         // fewer than min_samples without waiting for a core
  double wait_s = 0, timed_s = 0;
};

// What is sampled; it must have run before.
struct SampledCalls {
  std::function<Result<double>(int calls)> seconds;  // that so many calls in a row take
  bool one_call = false;                             // a sample is a single call
  bool on_device = false;  // timed by the clock of a device: cores do not matter
};
// The first error of `seconds` ends it.
Result<Sampled> take_samples(const SampledCalls& calls, const SamplerOptions& options);

// The same by the clock of this process. `before_call`, if any, runs outside the clock before
// each call (cold caches), and each sample is then a single call.
Sampled take_samples(const std::function<void()>& call, const std::function<void()>& before_call,
                     const SamplerOptions& options);

// Whether the median of these samples is known to about `precision`, relative: from the distance of
// the quartiles and their number.
bool is_tight(const std::vector<double>& samples_s, double precision);

}  // namespace tessera::measure
