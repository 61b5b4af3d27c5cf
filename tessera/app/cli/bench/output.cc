#include "tessera/app/cli/bench/output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/colour.h"

namespace tessera::cli {

Json to_json(const app::OutputAgreement& a) {
  return {{"equal", a.equal}, {"mean_error", a.mean_error}, {"argmax", a.argmax}};
}

std::string to_text(const app::OutputAgreement& a) {
  return fmt::format(
      "{:.2f} % of the numbers are equal, the mean error is {:.2g} % of the range, the largest is "
      "the same in {:.1f} % of the rows",
      100 * a.equal, 100 * a.mean_error, 100 * a.argmax);
}

Json to_json(const app::BenchResult& r) {
  Json j = {{"name", r.name},
            {"threads", r.threads},
            {"median_us", r.median_us},
            {"p10_us", r.p10_us},
            {"p90_us", r.p90_us},
            {"p99_us", r.p99_us},
            {"batch", r.batch},
            {"per_s", app::throughput(r)},
            {"gflops", r.gflops},
            {"fraction_of_peak", r.fraction_of_peak},
            {"gbytes_per_s", r.gbytes_per_s},
            {"build_ms", r.build_ms},
            {"compared", r.compared},
            {"verified", r.verified},
            {"error_over_tolerance", r.max_error},
            {"trusted", r.trusted}};
  j["peers"] = Json::array();
  for (const app::PeerResult& p : r.peers) {
    Json peer = {{"name", p.name}};
    if (p.absent.empty()) {
      peer.update({{"version", p.version},
                   {"median_us", p.median_us},
                   {"p10_us", p.p10_us},
                   {"p90_us", p.p90_us},
                   {"ratio", p.ratio},
                   {"trusted", p.trusted},
                   {"verified", p.verified},
                   {"range_error", p.range_error}});
      if (p.agreement) peer["agreement"] = to_json(*p.agreement);
    } else {
      peer["absent"] = p.absent;
    }
    j["peers"].push_back(peer);
  }
  if (const app::PeerResult* best = app::best_peer(r)) j["best_peer"] = best->name;
  return j;
}

namespace {

// With more digits behind the point where there are few before it.
std::string us_text(double us) { return fmt::format("{:.{}f}", us, us < 1 ? 3 : us < 10 ? 2 : 1); }

}  // namespace

void print_header() {
  fmt::print("{:>7} {:>10} {:>10} {:>10} {:>9} {:>8} {:>6} {:>7} {:>8}  {:<8}  {}\n", "threads",
             "p50 us", "p90 us", "p99 us", "per s", "GFLOP/s", "% peak", "GB/s", "build ms",
             "result", "what");
}

void print_row(const app::BenchResult& r, bool times) {
  fmt::print(
      "{:>7} {:>10} {:>10} {:>10} {:>9.1f} {:>8.1f} {:>6.1f} {:>7.1f} {:>8.1f}  {}  "
      "{}{}\n",
      r.threads, us_text(r.median_us), us_text(r.p90_us), us_text(r.p99_us), app::throughput(r),
      r.gflops, 100 * r.fraction_of_peak, r.gbytes_per_s, r.build_ms,
      r.verified   ? "verified"
      : r.compared ? coloured(Colour::kRed, "WRONG   ")
                   : "not compared",
      r.name, r.trusted ? "" : " (busy machine)");
  const app::PeerResult* best = app::best_peer(r);
  const auto measured =
      std::count_if(r.peers.begin(), r.peers.end(), [](const auto& p) { return p.absent.empty(); });
  for (const app::PeerResult& p : r.peers) {
    if (!p.absent.empty()) {
      fmt::print("    {:<13} absent: {}\n", p.name, p.absent);
      continue;
    }
    std::string remark = &p == best && measured > 1 ? "  best" : "";
    if (!p.trusted) remark += " (busy machine)";
    if (!p.verified) {
      remark =
          fmt::format("  its outputs differ from ours, {:.1f} times what is allowed", p.max_error);
    }
    fmt::print("    {:<13} {:>10} us  {:>6.2f}x{}\n", p.name, us_text(p.median_us), p.ratio,
               remark);
    if (p.agreement) fmt::print("    {:<13} {}\n", "", to_text(*p.agreement));
  }
  if (times) {
    for (const lower::PassTime& t : r.times) fmt::print(stderr, "{:>9.3f} ms  {}\n", t.ms, t.name);
  }
}

// Geometric mean of the ratio to the fastest peer of each, and those where a peer is ahead; printed
// after a list of several.
void print_summary(const std::vector<app::BenchResult>& results) {
  double log_sum = 0;
  int compared = 0;
  std::vector<std::string> behind;
  for (const app::BenchResult& r : results) {
    const app::PeerResult* best = app::best_peer(r);
    if (best == nullptr) continue;
    log_sum += std::log(best->ratio);
    if (best->ratio <= 1)
      behind.push_back(fmt::format("    {} ({} {:.2f}x)\n", r.name, best->name, best->ratio));
    ++compared;
  }
  if (compared <= 1) return;
  fmt::print("ahead of the best peer on {} of {}; geometric mean {:.2f}x\n",
             compared - static_cast<int>(behind.size()), compared, std::exp(log_sum / compared));
  if (!behind.empty()) fmt::print("behind it:\n{}", fmt::join(behind, ""));
}

}  // namespace tessera::cli
