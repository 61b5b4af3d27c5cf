#include "tessera/app/bench/machine.h"

#include <algorithm>

#include "tessera/app/bench/probes.h"
#include "tessera/machine/target/measured_as.h"

namespace tessera::app {
namespace {

// The kind whose rate "% of peak" of results of this type means. Integer results come from 8-bit
// operands.
const PeakKind& kind_of(DType dtype) {
  for (const PeakKind& kind : peak_kinds()) {
    if (kind.acc == dtype && kind.fn == ir::Intrinsic::kFma) return kind;
  }
  return *std::ranges::find(peak_kinds(), ir::Intrinsic::kDot4, &PeakKind::fn);
}

}  // namespace

Result<double> measure_peak(DType dtype, const target::Target& target, int threads,
                            const runtime::TimingOptions& timing) {
  runtime::ThreadPool pool(probe_pool(threads));
  std::vector<Probe> probe(1);
  TESSERA_TRY(probe[0], peak_probe(kind_of(dtype), target, pool));
  measure(probe, pool, timing);
  return probe[0].giga_per_s();
}

Result<double> PeakOf::fraction(DType dtype, double gflops, bool saves) {
  constexpr int kMostAgain = 2;
  double& peak = peaks_[dtype];
  if (const auto sheet = target::datasheet_gflops(target_)) {
    peak = *sheet;
    return peak > 0 ? gflops / peak : 0;
  }
  for (int again = 0; peak == 0 || (peak < gflops && again < kMostAgain); ++again) {
    TESSERA_TRY(const double measured, measure_peak(dtype, target_, threads_, timing_));
    peak = std::max(peak, measured);
  }
  if (!saves) peak = std::max(peak, gflops);
  return peak > 0 ? gflops / peak : 0;
}

double PeakOf::gops(DType dtype) const {
  const auto at = peaks_.find(dtype);
  return at == peaks_.end() ? 0 : at->second;
}

Result<MachineReport> measure_machine(const target::Target& target, int threads,
                                      const runtime::TimingOptions& timing) {
  runtime::ThreadPool pool(probe_pool(threads));
  MachineReport report{.threads = pool.threads()};
  std::vector<Probe> probes;
  for (const PeakKind& kind : peak_kinds()) {
    if (kind.needs && !(target.*kind.needs)) continue;
    TESSERA_TRY(Probe probe, peak_probe(kind, target, pool));
    probes.push_back(std::move(probe));
    report.peaks.push_back({kind.name, 0});
  }
  measure(probes, pool, timing);
  for (std::size_t i = 0; i < probes.size(); ++i) report.peaks[i].gops = probes[i].giga_per_s();
  for (const auto& [level, bytes] : probed_levels(target, report.threads)) {
    std::vector<Probe> of_level;
    for (const char* access : {"read", "write", "copy"}) {
      TESSERA_TRY(Probe probe, access_probe(access, bytes, target, pool));
      of_level.push_back(std::move(probe));
      report.bandwidths.push_back({level, access, 0});
    }
    measure(of_level, pool, timing);
    for (std::size_t i = 0; i < of_level.size(); ++i) {
      report.bandwidths[report.bandwidths.size() - of_level.size() + i].gbytes_per_s =
          of_level[i].giga_per_s();
    }
  }
  return report;
}

}  // namespace tessera::app
