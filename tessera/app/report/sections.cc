#include "tessera/app/report/sections.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include <fmt/format.h>

#include "tessera/trials/record/explain.h"

namespace tessera::report {
namespace {

constexpr std::size_t kCurves = 7;  // kernels with a curve of their own

plot::LineChart progress_chart(const Report& report, const TimeUnit& unit, bool over_time) {
  const double end_s = report.total.back().time_s;
  const bool minutes = end_s > 600;
  plot::Series best{.name = "best so far", .steps = true};
  for (const Progress& p : report.total) {
    best.points.push_back({over_time ? p.time_s / (minutes ? 60 : 1) : static_cast<double>(p.trial),
                           p.seconds * unit.per_second});
  }
  plot::Series untuned{.name = "default schedules"};
  if (report.before_s() > 0) {
    for (const plot::Point& p : {best.points.front(), best.points.back()}) {
      untuned.points.push_back({p.x, report.before_s() * unit.per_second});
    }
  }
  plot::Series kept{.name = "kept by the plan"};
  if (report.has_summary && report.after_s() > 0) {
    for (const plot::Point& p : {best.points.front(), best.points.back()})
      kept.points.push_back({p.x, report.after_s() * unit.per_second});
  }
  return {.title = over_time ? "Time of all kernels over the time of tuning"
                             : "Time of all kernels over trials",
          .x = {.label = !over_time ? "trials"
                         : minutes  ? "tuning [min]"
                                    : "tuning [s]"},
          .y = {.label = fmt::format("sum of the kernels [{}]", unit.name)},
          .series = {best, untuned, kept},
          .width = kChartWidth,
          .height = 300};
}

plot::LineChart gain_chart(const Report& report) {
  plot::LineChart chart{.title = "Gain of the kernels with most time, over trials",
                        .x = {.label = "trials"},
                        .y = {.label = "first time / best so far"},
                        .width = kChartWidth,
                        .height = 320};
  for (const Kernel& k : report.kernels) {
    const auto it = report.by_kernel.find(k.id);
    if (it == report.by_kernel.end() || k.use.uses_after <= 0) continue;
    plot::Series series{.name = k.label, .steps = true};
    const double first_s = k.before ? k.before->seconds : it->second.front().seconds;
    for (const Progress& p : it->second) {
      series.points.push_back({static_cast<double>(p.trial), first_s / p.seconds});
    }
    series.points.push_back({static_cast<double>(report.trials), series.points.back().y});
    chart.series.push_back(std::move(series));
    if (chart.series.size() == kCurves) break;
  }
  return chart;
}

}  // namespace

std::string duration_text(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) return "-";
  const TimeUnit unit = unit_of(seconds);
  return fmt::format("{:.3g} {}", seconds * unit.per_second, unit.name);
}

std::string date_text(std::int64_t unix_time) {
  if (unix_time <= 0) return "-";
  const auto time = static_cast<std::time_t>(unix_time);
  std::tm parts{};
  if (gmtime_r(&time, &parts) == nullptr) return "-";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min);
}

std::string gain_text(double before_s, double after_s) {
  return before_s > 0 && after_s > 0 ? fmt::format("{:.2f}x", before_s / after_s) : "-";
}

TimeUnit unit_of(double seconds) {
  if (seconds < 1e-3) return {"µs", 1e6};
  if (seconds < 1) return {"ms", 1e3};
  return {};
}

void add_outcome(const Report& report, Html* page) {
  const Summary& s = report.summary;
  for (const WholeModel& m : s.models) {
    if (m.before_s <= 0 || m.after_s <= 0) continue;
    page->facts({{m.name + ", untuned", duration_text(m.before_s)},
                 {"tuned", duration_text(m.after_s)},
                 {"gain", gain_text(m.before_s, m.after_s)}});
    if (!m.trusted) page->note("Other processes used the cores while the whole model was timed.");
    for (const Peer& p : s.peers) {
      if (p.model != m.name) continue;
      page->facts({{p.name, duration_text(p.theirs_s)},
                   {"the tuned model beside it", duration_text(p.ours_s)},
                   {"times as fast", gain_text(p.theirs_s, p.ours_s)}});
    }
  }
  const auto used =
      std::ranges::count_if(report.kernels, [](const Kernel& k) { return k.use.uses_after > 0; });
  const auto others = static_cast<std::ptrdiff_t>(report.kernels.size()) - used;
  page->facts({{"kernels, default schedules", duration_text(report.before_s())},
               {"kernels, best found", duration_text(report.after_s())},
               {"gain", gain_text(report.before_s(), report.after_s())},
               {"trials", fmt::format("{}", report.trials)},
               {"kernels", fmt::format("{}", used)},
               {"alternatives tried", fmt::format("{}", others)}});
  if (!s.unproved.empty()) {
    page->note(fmt::format(
        "Some kernels seem faster, but the whole model was not faster by more than the noise of "
        "this machine, so the plan keeps their default schedules. {} has what was found: time it "
        "on a quiet machine with tessera bench MODEL --plan {}.",
        s.unproved, s.unproved));
  }
  if (!report.has_summary) {
    page->note(
        "These sessions left no summary: they were ended by force, imported, or run by an older "
        "version. Every kernel counts once, and times are those of single trials.");
  }
  if (s.busy) page->note("Other processes used the cores during a good part of the tuning.");
  if (s.stopped_by == "budget")
    page->paragraph("The budget ended the search: the same command again resumes it.");
}

void add_progress(const Report& report, Html* page) {
  page->heading("Speed over trials and time", "progress");
  if (report.total.empty()) {
    page->paragraph("No moment is known at which every kernel had a time.");
    return;
  }
  const TimeUnit unit = unit_of(std::max(report.before_s(), report.total.front().seconds));
  page->paragraph(
      "Sum over the kernels of the tuned model, each as often as the model runs it, with the "
      "fastest single trial so far. The plan keeps what was confirmed beside the default in turns, "
      "so it may end above that. Lower is better.");
  page->charts({progress_chart(report, unit, false), progress_chart(report, unit, true)});
  page->paragraph("The kernels in which the model spends most time:");
  page->chart(gain_chart(report));
}

void add_plans(const Report& report, Html* page) {
  if (report.plans.empty()) return;
  page->heading("Plans of the whole model", "plans");
  page->paragraph(
      "Each plan was timed in turns with the one that the rules make. A share below one is "
      "faster.");
  constexpr std::size_t kMostRows = 20;
  std::vector<std::vector<std::string>> rows;
  for (const record::Record& r : report.plans) {
    if (rows.size() == kMostRows) break;
    rows.push_back({r.policy, fmt::format("{}", record::decisions_of(r).size()),
                    duration_text(r.seconds), duration_text(r.default_s),
                    fmt::format("{:.3f}", r.seconds / r.default_s)});
  }
  page->table({{"found by"}, {"decisions", true}, {"plan", true}, {"rules", true}, {"share", true}},
              rows);
  if (report.plans.size() > rows.size())
    page->paragraph(fmt::format("{} more plans.", report.plans.size() - rows.size()));
  rows.clear();
  for (const auto& [key, value] : record::decisions_of(report.plans[0]))
    rows.push_back({key, value});
  if (rows.empty()) return;
  page->small_heading("What the fastest decides otherwise");
  page->table({{"decision"}, {"value"}}, rows);
}

void add_failures(const Report& report, Html* page) {
  page->heading("Trials that failed", "failures");
  if (report.failures.empty()) {
    page->paragraph("None.");
    return;
  }
  std::map<std::string, std::int64_t> outcomes;
  std::int64_t all = 0;
  for (const Failure& f : report.failures) {
    outcomes[f.outcome] += f.count;
    all += f.count;
  }
  page->paragraph(fmt::format("{} of {} trials.", all, report.trials));
  plot::RowChart chart{.title = "Failures by outcome",
                       .x = {.label = "trials"},
                       .series = {"trials"},
                       .digits = 0,
                       .width = kChartWidth};
  for (const auto& [outcome, count] : outcomes) {
    chart.rows.push_back({.label = outcome, .values = {static_cast<double>(count)}});
  }
  std::stable_sort(chart.rows.begin(), chart.rows.end(),
                   [](const auto& a, const auto& b) { return a.values[0] > b.values[0]; });
  page->chart(chart);
  constexpr std::size_t kMostRows = 40, kMostBytes = 400;
  std::vector<std::vector<std::string>> rows;
  for (const Failure& f : report.failures) {
    if (rows.size() == kMostRows) break;
    rows.push_back(
        {fmt::format("{}", f.count), fmt::format("{}", f.tasks), f.outcome,
         f.reason.size() > kMostBytes ? f.reason.substr(0, kMostBytes) + " ..." : f.reason});
  }
  page->table({{"trials", true}, {"kernels", true}, {"outcome"}, {"reason"}}, rows);
  if (report.failures.size() > rows.size()) {
    page->paragraph(fmt::format("{} more reasons: tessera db explain --task KEY",
                                report.failures.size() - rows.size()));
  }
}

void add_sessions(const Report& report, Html* page) {
  page->heading("Sessions", "sessions");
  std::vector<std::vector<std::string>> rows;
  for (const record::SessionRow& s : report.sessions) {
    rows.push_back({fmt::format("{}", s.id), date_text(s.started), s.state,
                    fmt::format("{}", s.records), s.model, s.options, s.version});
  }
  page->table({{"session", true},
               {"started"},
               {"state"},
               {"records", true},
               {"model"},
               {"options"},
               {"version"}},
              rows);
  page->paragraph("Database: " + report.database);
}

}  // namespace tessera::report
