// Honest timing on a shared machine: a sample counts only if no thread of the process waited for a
// core.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tessera::runtime {

struct TimingOptions {
  double sample_s = 5e-3;    // calls are repeated until a sample takes at least this long
  int samples = 20;          // clean samples wanted of each callable
  int min_samples = 5;       // with fewer clean ones the result is not `trusted`
  double time_limit_s = 10;  // of each callable; several share the sum. One round is always taken
  // Rest between callables: thread pools of other libraries spin on after a call (up to 64 ms seen)
  // and would disturb the next one. Counts in time_limit_s.
  double pause_s = 0;
};

// Seconds per call. Computed from clean samples alone if `trusted`, else from the least disturbed
// ones.
struct Samples {
  std::vector<double> call_s;  // in the order taken, at least one
  int calls_per_sample = 1;
  int clean = 0, dirty = 0;  // samples taken, by whether the threads waited for a core
  bool checked = false;      // the kernel told about waiting; else every sample counts as clean
  bool trusted = false;      // checked, and at least min_samples clean ones

  double percentile(double q) const;  // q in [0, 1], linear between neighbours
  double median_s() const { return percentile(0.5); }
  double p10_s() const { return percentile(0.1); }
  double p90_s() const { return percentile(0.9); }
};

// Times several callables (ours and our peers) in turns, so that drift of the machine meets all
// alike. A sample of a short callable starts with one call outside the clock, which brings its data
// back into the caches.
class InterleavedTimer {
 public:
  explicit InterleavedTimer(const TimingOptions& options = {});

  // Returns the index of the callable's result in run().
  int add(std::function<void()> call);

  // Calls each at least three times. An exception of a callable passes through.
  std::vector<Samples> run();

 private:
  TimingOptions options_;
  std::vector<std::function<void()>> calls_;
};

Samples time_calls(const std::function<void()>& call, const TimingOptions& options = {});

// A sample as taken: wait_s is what all threads waited in it or in the sample that followed,
// whichever is more.
struct RawSample {
  double total_s = 0, wait_s = 0;
};

// Less than 1 % of the sample and 30 us: the disturbance that still vanishes in the median.
bool is_clean(const RawSample& sample);

// Turns samples into a result: the clean ones, or the least disturbed if fewer than min_samples are
// clean.
Samples summarize(const std::vector<RawSample>& raw, int calls_per_sample, bool checked,
                  const TimingOptions& options);

}  // namespace tessera::runtime
