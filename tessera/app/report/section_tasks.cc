// What became of the kernels: gains, time against rooflines, schedules.
#include <algorithm>
#include <limits>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "tessera/app/report/sections.h"
#include "tessera/trials/record/explain.h"

namespace tessera::report {
namespace {

constexpr std::size_t kBars = 24;       // kernels with bars; the table has all
constexpr std::size_t kSchedules = 12;  // kernels whose schedules are shown
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double known(double value) { return value > 0 ? value : kNone; }

double saved_s(const Kernel& k) { return k.total_before_s() - k.total_after_s(); }

bool has_gain(const Kernel& k) {
  return k.use.uses_after > 0 && k.use.before_s > 0 && k.use.after_s > 0;
}

double roofline_s(const Kernel& k, const std::optional<Ceilings>& ceilings) {
  if (!ceilings) return 0;
  return least_time_s(*ceilings, k.dtype, k.task.flops, k.task.bytes, k.use.cold);
}

std::string uses_text(const Kernel& k) {
  if (k.use.uses_before == k.use.uses_after) return fmt::format("{}", k.use.uses_after);
  return fmt::format("{} -> {}", k.use.uses_before, k.use.uses_after);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// Lines that the other text does not have are marked.
std::vector<MarkedLine> marked(const std::string& text, const std::string& other) {
  const std::vector<std::string> there = lines_of(other);
  const std::set<std::string> known_lines(there.begin(), there.end());
  std::vector<MarkedLine> out;
  for (const std::string& line : lines_of(text)) {
    out.push_back({line, !known_lines.contains(line)});
  }
  return out;
}

void add_decisions(const record::Record& before, const record::Record& after, Html* page) {
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [name, value] : record::decisions_of(before)) both[name].first = value;
  for (const auto& [name, value] : record::decisions_of(after)) both[name].second = value;
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, values] : both) {
    if (values.first != values.second) rows.push_back({name, values.first, values.second});
  }
  if (!rows.empty()) page->table({{"decision"}, {"default"}, {"winner"}}, rows);
}

}  // namespace

void add_gains(const Report& report, Html* page) {
  page->heading("What each kernel gained", "gains");
  plot::RowChart chart{.title = "Gain of each kernel",
                       .x = {.label = "time before / time after"},
                       .series = {"gain"},
                       .mark = "no change"};
  std::vector<const Kernel*> kernels;
  for (const Kernel& k : report.kernels) {
    if (has_gain(k)) kernels.push_back(&k);
  }
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Kernel* a, const Kernel* b) { return saved_s(*a) > saved_s(*b); });
  if (kernels.empty()) {
    page->paragraph("No kernel has times before and after.");
    return;
  }
  page->paragraph("Those that save the model most time come first.");
  for (const Kernel* k : kernels) {
    if (chart.rows.size() == kBars) break;
    chart.rows.push_back(
        {.label = k->label, .values = {k->use.before_s / k->use.after_s}, .mark = 1});
  }
  page->chart(chart);
  if (kernels.size() > kBars) {
    page->paragraph(fmt::format("{} more kernels are in the table below.", kernels.size() - kBars));
  }
}

void add_kernels(const Report& report, const std::optional<Ceilings>& ceilings, Html* page) {
  page->heading("Where the time goes", "kernels");
  const TimeUnit unit =
      report.kernels.empty() ? TimeUnit() : unit_of(report.kernels[0].total_before_s());
  plot::RowChart chart{.title = "Time of the model in each kernel, before and after",
                       .x = {.label = fmt::format("time of all uses [{}]", unit.name)},
                       .series = {"before", "after"},
                       .mark = ceilings ? "roofline" : ""};
  std::vector<std::vector<std::string>> rows;
  for (const Kernel& k : report.kernels) {
    const double least_s = roofline_s(k, ceilings);
    if (chart.rows.size() < kBars && (k.total_before_s() > 0 || k.total_after_s() > 0)) {
      plot::Row row{.label = k.label,
                    .values = {known(k.total_before_s() * unit.per_second),
                               known(k.total_after_s() * unit.per_second)}};
      const double uses = k.use.uses_after > 0 ? k.use.uses_after : k.use.uses_before;
      if (least_s > 0) row.mark = least_s * uses * unit.per_second;
      chart.rows.push_back(std::move(row));
    }
    const double gflops = k.use.after_s > 0 ? k.task.flops / k.use.after_s * 1e-9 : 0;
    rows.push_back(
        {k.label, uses_text(k), duration_text(k.use.before_s), duration_text(k.use.after_s),
         gain_text(k.use.before_s, k.use.after_s), gflops > 0 ? fmt::format("{:.1f}", gflops) : "-",
         least_s > 0 && k.use.after_s > 0 ? fmt::format("{:.0f} %", 100 * least_s / k.use.after_s)
                                          : "-",
         fmt::format("{}", k.trials), k.task.key});
  }
  if (ceilings) {
    page->paragraph(
        "The roofline is the time that no schedule can beat: all operations at the rate of the "
        "machine, or every tensor moved once at the bandwidth of the smallest cache that holds "
        "them, whichever takes longer.");
  } else {
    page->paragraph(
        "There are no rooflines: the rates of the machine are not known here. Make the report on "
        "the machine itself to have them measured.");
  }
  page->chart(chart);
  page->table({{"kernel"},
               {"uses", true},
               {"before", true},
               {"after", true},
               {"gain", true},
               {"GFLOP/s", true},
               {"of roofline", true},
               {"trials", true},
               {"key"}},
              rows);
}

void add_schedules(const Report& report, Html* page) {
  page->heading("Schedules side by side", "schedules");
  std::vector<const Kernel*> changed;
  for (const Kernel& k : report.kernels) {
    if (k.before && k.after && k.before->candidate != k.after->candidate) changed.push_back(&k);
  }
  std::stable_sort(changed.begin(), changed.end(),
                   [](const Kernel* a, const Kernel* b) { return saved_s(*a) > saved_s(*b); });
  if (changed.empty()) {
    page->paragraph("Every kernel kept its default schedule.");
    return;
  }
  page->paragraph(
      "Default and winner of the kernels that save most time. Lines that the other does not have "
      "are marked.");
  for (std::size_t i = 0; i < changed.size() && i < kSchedules; ++i) {
    const Kernel& k = *changed[i];
    page->begin_details(
        fmt::format("{}: {} -> {} ({})", k.label, duration_text(k.use.before_s),
                    duration_text(k.use.after_s), gain_text(k.use.before_s, k.use.after_s)),
        i == 0);
    add_decisions(*k.before, *k.after, page);
    page->side_by_side("default", marked(k.before->schedule, k.after->schedule), "winner",
                       marked(k.after->schedule, k.before->schedule));
    page->end_details();
  }
}

}  // namespace tessera::report
