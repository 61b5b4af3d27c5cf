#include "tessera/app/report/ceilings.h"

#include <algorithm>

#include "tessera/machine/target/measured_as.h"

namespace tessera::report {

std::optional<Ceilings> datasheet_ceilings(const target::Target& target) {
  const std::optional<double> gflops = target::datasheet_gflops(target);
  if (!gflops || target.gpu.bandwidth_gb_s <= 0) return std::nullopt;
  Ceilings out{.source = "datasheet of the device"};
  // Other types may use tensor cores, of whose rate the target does not tell.
  if (*gflops > 0) out.gflops["f32"] = *gflops;
  out.levels = {{"memory", 0, static_cast<double>(target.gpu.bandwidth_gb_s)}};
  return out;
}

double peak_gflops(const Ceilings& ceilings, const std::string& dtype) {
  auto rate = ceilings.gflops.find(dtype);
  if (rate == ceilings.gflops.end() && dtype == "u8") rate = ceilings.gflops.find("i8");
  return rate != ceilings.gflops.end() ? std::max(0.0, rate->second) : 0;
}

double least_time_s(const Ceilings& ceilings, const std::string& dtype, double flops, double bytes,
                    bool cold) {
  const double peak = peak_gflops(ceilings, dtype);
  const double compute_s = peak > 0 ? flops * 1e-9 / peak : 0;
  if (ceilings.levels.empty()) return compute_s;
  const auto fits = [&](const CacheLevel& level) { return !cold && bytes <= level.bytes; };
  const auto found = std::find_if(ceilings.levels.begin(), ceilings.levels.end(), fits);
  const CacheLevel& level = found == ceilings.levels.end() ? ceilings.levels.back() : *found;
  const double memory_s = level.gbytes_s > 0 ? bytes * 1e-9 / level.gbytes_s : 0;
  return std::max(compute_s, memory_s);
}

}  // namespace tessera::report
