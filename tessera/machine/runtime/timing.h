// Honest timing on a shared machine: a sample counts only if no thread of the process waited for a
// core.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/machine/runtime/run_queue.h"

namespace tessera::runtime {

struct TimingOptions {
  double sample_s = 5e-3;    // calls are repeated until a sample takes at least this long
  int samples = 20;          // clean samples wanted of each callable
  int min_samples = 5;       // with fewer clean ones the result is not `trusted`
  double time_limit_s = 10;  // of each callable; several share the sum. One round is always taken
};

// Seconds per call. Computed from clean samples alone if `trusted`, else from the least disturbed
// ones.
struct Samples {
  std::vector<double> call_s;  // in the order taken, at least one; none when its sampler failed
  int calls_per_sample = 1;
  int clean = 0, dirty = 0;  // samples taken, by whether the threads waited for a core
  bool checked = false;      // the kernel told about waiting; else every sample counts as clean
  // Checked, at least min_samples clean ones, and these do not differ so much that something else
  // than a wait must have disturbed them.
  bool trusted = false;

  double percentile(double q) const;  // q in [0, 1], linear between neighbours
  double median_s() const { return percentile(0.5); }
  double p10_s() const { return percentile(0.1); }
  double p90_s() const { return percentile(0.9); }
};

// A sample as taken: wait_s is what all threads waited in it or until the next one began, whichever
// is more.
struct RawSample {
  double total_s = 0, wait_s = 0;
};

// As a sampler gives it: `late_wait_s` belongs to its sample before, and shows only now.
struct TakenSample {
  RawSample sample;
  double late_wait_s = 0;
};

// Takes one sample of so many calls; `warm`: after one call that is not timed and brings its data
// back into the caches. nullopt: it cannot be called any more.
using Sampler = std::function<std::optional<TakenSample>(int calls, bool warm)>;

// Times several callables (ours and our peers) in turns, so that drift of the machine meets all
// alike.
class InterleavedTimer {
 public:
  explicit InterleavedTimer(const TimingOptions& options = {});
  InterleavedTimer(const InterleavedTimer&) = delete;
  InterleavedTimer& operator=(const InterleavedTimer&) = delete;

  // Returns the index of the callable's result in run().
  int add(std::function<void()> call);
  // The same for what runs elsewhere and is timed there.
  int add(Sampler sampler);

  // Calls each at least three times. An exception of a callable passes through.
  std::vector<Samples> run();
  // The same, once more where a result could not be trusted; the run with more clean samples
  // counts.
  std::vector<Samples> run_undisturbed();

 private:
  TimingOptions options_;
  std::vector<Sampler> samplers_;
  RunQueueClock run_queue_;  // of this process
};

Samples time_calls(const std::function<void()>& call, const TimingOptions& options = {});

// Less than 1 % of the sample and 30 us: the disturbance that still vanishes in the median.
bool is_clean(const RawSample& sample);

// Turns samples into a result: the clean ones, or the least disturbed if fewer than min_samples are
// clean.
Samples summarize(const std::vector<RawSample>& raw, int calls_per_sample, bool checked,
                  const TimingOptions& options);

}  // namespace tessera::runtime
