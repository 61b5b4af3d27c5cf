#include "tessera/machine/target/measured_as.h"

#include <algorithm>

namespace tessera::target {

int measured_threads(const Target& t, int threads) { return t.is_gpu() ? 1 : threads; }

std::optional<double> datasheet_gflops(const Target& t) {
  if (!t.is_gpu()) return std::nullopt;
  return 2e-3 * t.cores * t.gpu.core_lanes * t.gpu.clock_mhz;
}

double last_cache_bytes(const Target& t) {
  if (t.is_gpu()) return static_cast<double>(t.l2_bytes);
  const auto own = static_cast<double>(t.l2_bytes) * t.code_threads();
  return std::max(static_cast<double>(t.l3_bytes), own);
}

}  // namespace tessera::target
