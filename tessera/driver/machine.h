// The ceilings of the machine, measured with code that Tessera generates: FMA rate per type,
// bandwidth per level.
#pragma once

#include <string>
#include <vector>

#include "tessera/runtime/timing.h"
#include "tessera/support/dtype.h"
#include "tessera/support/result.h"
#include "tessera/target/target.h"

namespace tessera::driver {

struct ComputePeak {
  std::string name;  // "f32_fma", "i8_dot", ...
  double gops = 0;   // all threads; a multiply-add counts two
};

struct Bandwidth {
  std::string level;   // "L1", "L2", "L3", "memory"
  std::string access;  // "read", "write", "copy"
  std::int64_t bytes_per_thread = 0;
  double gbytes_per_s = 0;  // all threads; a copy counts both directions
};

struct MachineReport {
  int threads = 1;
  std::vector<ComputePeak> peaks;
  std::vector<Bandwidth> bandwidths;
};

// The f32 FMA rate of `threads` threads, GFLOP/s: what fraction_of_peak is a fraction of.
Result<double> measure_peak(DType dtype, const target::Target& target, int threads,
                            const runtime::TimingOptions& timing);

Result<MachineReport> measure_machine(const target::Target& target, int threads,
                                      const runtime::TimingOptions& timing);

}  // namespace tessera::driver
