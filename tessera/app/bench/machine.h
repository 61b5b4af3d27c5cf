// The ceilings of the machine, measured with code that Tessera generates: FMA rate per type,
// bandwidth per level.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/machine/runtime/timing.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/dtype.h"
#include "tessera/support/result.h"

namespace tessera::app {

// The peak that results are compared with, measured when first asked for; of GPUs, what the
// datasheet promises of their f32 lanes.
class PeakOf {
 public:
  PeakOf(const target::Target& target, int threads, const runtime::TimingOptions& timing)
      : target_(target), threads_(threads), timing_(timing) {}

  // What part of the peak `gflops` is. A result above it says that the machine was busy when the
  // peak was measured: it is measured again, and at last raised to the result unless that `saves`
  // operations (Winograd does, which are counted all the same).
  Result<double> fraction(DType dtype, double gflops, bool saves);
  // After fraction().
  double gops(DType dtype) const;

 private:
  target::Target target_;
  int threads_;
  runtime::TimingOptions timing_;
  std::map<DType, double> peaks_;
};

struct ComputePeak {
  std::string name;  // "f32_fma", "i8_dot", ...
  double gops = 0;   // all threads; a multiply-add counts two
};

struct Bandwidth {
  std::string level;        // "L1", "L2", "L3", "memory"
  std::string access;       // "read", "write", "copy"
  double gbytes_per_s = 0;  // all threads; a copy counts both directions
};

struct MachineReport {
  int threads = 1;
  std::vector<ComputePeak> peaks;
  std::vector<Bandwidth> bandwidths;
};

// The multiply-add rate for results of this type, GFLOP/s, of so many threads that run together,
// the best of several rounds: what fraction_of_peak is a fraction of.
Result<double> measure_peak(DType dtype, const target::Target& target, int threads,
                            const runtime::TimingOptions& timing);

// Rates and bandwidths of so many threads that run together; each the best of several rounds.
Result<MachineReport> measure_machine(const target::Target& target, int threads,
                                      const runtime::TimingOptions& timing);

}  // namespace tessera::app
