#include "tessera/machine/target/measured_as.h"

namespace tessera::target {

int measured_threads(const Target& t, int threads) { return t.is_gpu() ? 1 : threads; }

std::optional<double> datasheet_gflops(const Target& t) {
  if (!t.is_gpu()) return std::nullopt;
  return 2e-3 * t.cores * t.gpu.core_lanes * t.gpu.clock_mhz;
}

}  // namespace tessera::target
