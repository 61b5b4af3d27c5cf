#include "tessera/cli/bench_output.h"

#include <cmath>
#include <cstdio>
#include <filesystem>

namespace tessera::cli {

nlohmann::ordered_json to_json(const driver::BenchResult& r) {
  nlohmann::ordered_json j = {{"name", r.name},
                              {"threads", r.threads},
                              {"median_us", r.median_us},
                              {"p10_us", r.p10_us},
                              {"p90_us", r.p90_us},
                              {"gflops", r.gflops},
                              {"fraction_of_peak", r.fraction_of_peak},
                              {"gbytes_per_s", r.gbytes_per_s},
                              {"build_ms", r.build_ms},
                              {"verified", r.verified},
                              {"error_over_tolerance", r.max_error},
                              {"trusted", r.trusted},
                              {"schedule", std::filesystem::path(r.schedule).filename().string()}};
  j["peers"] = nlohmann::ordered_json::array();
  for (const driver::PeerResult& p : r.peers) {
    nlohmann::ordered_json peer = {{"name", p.name}};
    if (p.absent.empty()) {
      peer.update({{"version", p.version},
                   {"median_us", p.median_us},
                   {"ratio", p.ratio},
                   {"trusted", p.trusted}});
    } else {
      peer["absent"] = p.absent;
    }
    j["peers"].push_back(peer);
  }
  return j;
}

void print_row(const driver::BenchResult& r, bool times) {
  fmt::print(
      "{:<58} {:>2}T {:>10.1f} us {:>8.1f} GFLOP/s {:>6.1f} % {:>6.1f} GB/s build {:>6.1f} ms "
      "{}{}\n",
      r.name, r.threads, r.median_us, r.gflops, 100 * r.fraction_of_peak, r.gbytes_per_s,
      r.build_ms,
      r.verified   ? "verified"
      : r.compared ? "WRONG"
                   : "not compared",
      r.trusted ? "" : " (busy machine)");
  for (const driver::PeerResult& p : r.peers) {
    if (p.absent.empty()) {
      fmt::print("    {:<10} {:>10.1f} us  {:>6.2f}x{}\n", p.name, p.median_us, p.ratio,
                 p.trusted ? "" : " (busy machine)");
    } else {
      fmt::print("    {:<10} absent: {}\n", p.name, p.absent);
    }
  }
  if (times) {
    for (const lower::PassTime& t : r.times) fmt::print(stderr, "{:>9.3f} ms  {}\n", t.ms, t.name);
  }
}

// Geometric mean of the ratio to the fastest peer of each operation, printed after a list of
// several.
void print_summary(const std::vector<driver::BenchResult>& results) {
  double log_sum = 0;
  int compared = 0, ahead = 0;
  for (const driver::BenchResult& r : results) {
    double best = INFINITY;
    for (const driver::PeerResult& p : r.peers) {
      if (p.absent.empty()) best = std::min(best, p.ratio);
    }
    if (std::isinf(best)) continue;
    log_sum += std::log(best);
    ahead += best > 1 ? 1 : 0;
    ++compared;
  }
  if (compared > 1) {
    fmt::print("ahead of the best peer on {} of {}; geometric mean {:.2f}x\n", ahead, compared,
               std::exp(log_sum / compared));
  }
}

}  // namespace tessera::cli
