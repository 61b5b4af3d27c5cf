// What was measured on, and how far its times can be trusted.
#include <fmt/format.h>

#include "tessera/app/report/sections.h"
#include "tessera/machine/target/target.h"

namespace tessera::report {
namespace {

std::string bytes_text(std::int64_t bytes) {
  if (bytes <= 0) return "-";
  return bytes >= (1 << 20) ? fmt::format("{:.4g} MiB", static_cast<double>(bytes) / (1 << 20))
                            : fmt::format("{:.4g} KiB", static_cast<double>(bytes) / (1 << 10));
}

void add_target(const record::SessionRow& session, Html* page) {
  const Result<target::Target> t = target::target_from_text(session.target);
  if (!t) {
    page->paragraph(session.target.empty() ? "The machine is not known." : session.target);
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"machine", fmt::format("{} ({})", t->name, target::to_text(t->kind))},
      {"processor", t->cpu.empty() ? "-" : t->cpu},
      {"cores", fmt::format("{}", t->cores)},
      {"threads of the code", fmt::format("{}", session.threads)},
      {"vector registers", fmt::format("{} of {} bytes", t->vector_registers, t->vector_bytes)},
      {"caches", fmt::format("{} L1, {} L2, {} L3", bytes_text(t->l1_bytes),
                             bytes_text(t->l2_bytes), bytes_text(t->l3_bytes))}};
  if (t->gpu.clock_mhz > 0) {
    rows.push_back({"memory", fmt::format("{} GB/s", t->gpu.bandwidth_gb_s)});
    rows.push_back({"clock", fmt::format("{} MHz", t->gpu.clock_mhz)});
  }
  page->table({{"fact"}, {"value"}}, rows);
}

void add_ceilings(const Ceilings& ceilings, Html* page) {
  page->small_heading("Rates");
  page->paragraph("Source: " + ceilings.source + ".");
  std::vector<std::vector<std::string>> rows;
  for (const auto& [dtype, gflops] : ceilings.gflops) {
    rows.push_back({dtype + " arithmetic", fmt::format("{:.1f} GFLOP/s", gflops)});
  }
  for (const CacheLevel& level : ceilings.levels) {
    rows.push_back({level.name + " reads", fmt::format("{:.1f} GB/s", level.gbytes_s)});
  }
  page->table({{"what"}, {"rate"}}, rows);
}

}  // namespace

void add_machine(const Report& report, const std::optional<Ceilings>& ceilings, Html* page) {
  page->heading("Machine and noise", "machine");
  if (!report.sessions.empty()) add_target(report.sessions.back(), page);
  if (ceilings) add_ceilings(*ceilings, page);
  page->small_heading("Noise");
  const Noise& n = report.noise;
  if (n.timed == 0) {
    page->paragraph("No trial was timed.");
    return;
  }
  page->facts({{"timed trials", fmt::format("{}", n.timed)},
               {"on a quiet machine", fmt::format("{:.0f} %", 100.0 * static_cast<double>(n.quiet) /
                                                                  static_cast<double>(n.timed))},
               {"spread, median trial", fmt::format("{:.1f} %", 100 * n.spread)},
               {"spread, 9 of 10 below", fmt::format("{:.1f} %", 100 * n.wide_spread)}});
  if (report.summary.disturbed > 0) {
    page->paragraph(fmt::format("{} more times were shared with other work and do not count.",
                                report.summary.disturbed));
  }
  page->paragraph(
      "The spread is the middle half of the samples of a trial, relative to their median. A fixed "
      "kernel is timed between the trials; where it slows down, the whole machine did, and times "
      "are corrected by it:");
  if (n.calibration.size() < 2) return;
  plot::Series series{.name = ""};
  const double first_s = n.calibration.front().seconds;
  for (const Progress& p : n.calibration) {
    series.points.push_back({p.time_s, p.seconds / first_s});
  }
  page->chart(plot::LineChart{.title = "Calibration kernel over the time of tuning",
                              .x = {.label = "tuning [s]"},
                              .y = {.label = "relative to the first"},
                              .series = {series},
                              .width = kChartWidth,
                              .height = 240});
}

}  // namespace tessera::report
