#include "tessera/app/bench/breakdown.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace tessera::app {
namespace {

constexpr double kLeastShown = 0.005;  // of the sum

double gbytes_s(const report::Ceilings& ceilings, double model_bytes) {
  for (const report::CacheLevel& level : ceilings.levels) {
    const bool far = level.name != "L1" && level.name != "L2";
    if (far && (level.name == "memory" || model_bytes <= level.bytes)) return level.gbytes_s;
  }
  return 0;
}

}  // namespace

const std::array<Breakdown::Part, 5>& Breakdown::parts() {
  static const std::array<Part, 5> all = {{{"arithmetic", &Breakdown::arithmetic_us},
                                           {"waiting", &Breakdown::waiting_us},
                                           {"memory", &Breakdown::memory_us},
                                           {"cold", &Breakdown::cold_us},
                                           {"other instructions", &Breakdown::rest_us}}};
  return all;
}

double Breakdown::us() const {
  double sum = 0;
  for (const Part& p : parts()) sum += this->*p.us;
  return sum;
}

std::string_view Breakdown::limit() const {
  return std::max_element(parts().begin(), parts().end(),
                          [&](const Part& a, const Part& b) { return this->*a.us < this->*b.us; })
      ->name;
}

double far_bytes(double constants, double others, double l2_bytes, double model_bytes) {
  return (model_bytes > l2_bytes ? constants : 0) + (others > l2_bytes ? others : 0);
}

Breakdown break_down(const StepFacts& step, const report::Ceilings& ceilings, double model_bytes) {
  Breakdown out;
  double left_us = std::max(0.0, step.us);
  const auto take = [&](double us) {
    const double taken = std::clamp(us, 0.0, left_us);
    left_us -= taken;
    return taken;
  };
  const double peak = report::peak_gflops(ceilings, step.dtype);
  const double bandwidth = gbytes_s(ceilings, model_bytes);
  out.arithmetic_us = take(peak > 0 ? 1e-3 * step.flops / peak : 0);
  out.waiting_us = take(step.waiting_share * step.us);
  const double cold_us = step.cold_share * step.us;
  out.memory_us = take(bandwidth > 0 ? 1e-3 * step.far_bytes / bandwidth : 0);
  out.cold_us = take(cold_us - out.memory_us);
  out.rest_us = left_us;
  return out;
}

Breakdown sum_of(const std::vector<Breakdown>& steps) {
  Breakdown out;
  for (const Breakdown& step : steps) {
    for (const Breakdown::Part& p : Breakdown::parts()) out.*p.us += step.*p.us;
  }
  return out;
}

std::string to_text(const Breakdown& sum) {
  const double all_us = sum.us();
  std::vector<Breakdown::Part> parts(Breakdown::parts().begin(), Breakdown::parts().end());
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const auto& a, const auto& b) { return sum.*a.us > sum.*b.us; });
  std::vector<std::string> shown;
  for (const Breakdown::Part& p : parts) {
    if (sum.*p.us < kLeastShown * all_us || all_us <= 0) continue;
    shown.push_back(fmt::format("{} {:.0f} %", p.name, 100 * sum.*p.us / all_us));
  }
  return fmt::format("of {:.{}f} ms: {}", 1e-3 * all_us, all_us < 1e3 ? 3 : 1,
                     fmt::join(shown, ", "));
}

}  // namespace tessera::app
