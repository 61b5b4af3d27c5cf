// A fixed piece of work whose time tells how fast the machine is at the moment.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace tessera::measure {

// Products and sums of vectors in registers and a walk over memory of the second-level cache, some
// ten microseconds of each. Its time moves with the clock rate and with neighbours on the caches,
// as that of kernels does; it must never change, because records compare it over years.
class CalibrationKernel {
 public:
  CalibrationKernel();
  // Median seconds of `runs` runs on the calling thread.
  double run(int runs);

 private:
  std::vector<float> memory_;
  volatile float sink_ = 0;
};

// A walk over memory of the size of the last-level cache, which neighbours on that cache or on the
// memory slow down while the kernel above, whose data is nearer, feels nothing. Some milliseconds.
class MemoryProbe {
 public:
  // `cache_bytes`: of the last-level cache; of a large one a part is walked over.
  explicit MemoryProbe(std::int64_t cache_bytes);
  // Seconds of the faster of two walks: the first brings back what the measured code pushed out.
  double run();

 private:
  std::vector<float> memory_;
  volatile float sink_ = 0;
};

// Says which of many walks, one beside each measurement, were slower than usual: the cache or the
// memory was shared with others then.
class MemoryWatch {
 public:
  // Takes note of the walk; few say nothing yet, nor does 0.
  bool is_disturbed(double probe_s);

 private:
  std::deque<double> recent_;
};

}  // namespace tessera::measure
