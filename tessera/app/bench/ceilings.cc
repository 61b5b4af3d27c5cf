#include "tessera/app/bench/ceilings.h"

#include <algorithm>

#include "tessera/app/bench/machine.h"
#include "tessera/machine/target/match.h"

namespace tessera::app {
namespace {

report::Ceilings from_measurements(const MachineReport& machine, const target::Target& target) {
  report::Ceilings out{.source = "measured when this report was made, all threads together"};
  for (const ComputePeak& peak : machine.peaks) {
    // "i8_dot" and "i8_mma" are both of i8: the faster counts.
    double& gops = out.gflops[peak.name.substr(0, peak.name.find('_'))];
    gops = std::max(gops, peak.gops);
  }
  const double threads = machine.threads;
  for (const Bandwidth& b : machine.bandwidths) {
    if (b.access != "read") continue;
    const double bytes = b.level == "L1"   ? threads * static_cast<double>(target.l1_bytes)
                         : b.level == "L2" ? threads * static_cast<double>(target.l2_bytes)
                         : b.level == "L3" ? static_cast<double>(target.l3_bytes)
                                           : 0;
    out.levels.push_back({b.level, bytes, b.gbytes_per_s});
  }
  return out;
}

}  // namespace

Result<std::optional<report::Ceilings>> ceilings_of(const std::string& target, int threads) {
  const Result<target::Target> machine = target::target_from_text(target);
  if (!machine) return std::optional<report::Ceilings>();  // of a foreign log
  if (const auto sheet = report::datasheet_ceilings(*machine)) return sheet;
  if (!target::same_machine(*machine, target::host())) return std::optional<report::Ceilings>();
  TESSERA_TRY(const MachineReport rates,
              measure_machine(target::host(), threads, {.samples = 10, .time_limit_s = 0.2}));
  return std::optional(from_measurements(rates, target::host()));
}

}  // namespace tessera::app
