// A fixed piece of work whose time tells how fast the machine is at the moment.
#pragma once

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

}  // namespace tessera::measure
