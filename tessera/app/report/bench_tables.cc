#include "tessera/app/report/bench_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/support/model_name.h"

namespace tessera::report {
namespace {

constexpr const char* kBegin = "<!-- generated: begin -->\n";
constexpr const char* kEnd = "<!-- generated: end -->\n";

// What the rows of one table share.
struct Series {
  std::string device, dtype;
  std::int64_t batch = 1;
  int threads = 1;
  bool operator==(const Series&) const = default;
  bool operator<(const Series& o) const {
    return std::tie(device, dtype, batch, threads) <
           std::tie(o.device, o.dtype, o.batch, o.threads);
  }
};

struct Run {
  const BenchRunFile* file;
  const TimedModel* model;
};

// One model of a series, by the runs that count.
struct Row {
  std::string name;
  std::vector<Run> runs;
  bool disturbed = false;  // in every run
};

struct Table {
  std::string machine;
  Series series;
  std::vector<Row> rows;  // in the order in which they were first timed
};

Series series_of(const TimedModel& m) {
  return {m.device, m.dtype, m.batch, m.device == "cpu" ? m.threads : 0};
}

// All runs of the newest version.
void keep_newest(Row* row) {
  const std::string version = row->runs.back().file->version;
  std::erase_if(row->runs, [&](const Run& r) { return r.file->version != version; });
  row->disturbed = std::none_of(row->runs.begin(), row->runs.end(),
                                [](const Run& r) { return r.model->trusted; });
}

std::vector<Table> tables_of(const std::vector<BenchRunFile>& runs) {
  std::vector<Table> tables;
  for (const BenchRunFile& file : runs) {
    for (const TimedModel& model : file.models) {
      const Series series = series_of(model);
      auto table = std::find_if(tables.begin(), tables.end(), [&](const Table& t) {
        return t.machine == file.machine && t.series == series;
      });
      if (table == tables.end()) table = tables.insert(tables.end(), {file.machine, series, {}});
      auto row = std::find_if(table->rows.begin(), table->rows.end(),
                              [&](const Row& r) { return r.name == model.name; });
      if (row == table->rows.end()) row = table->rows.insert(table->rows.end(), {model.name, {}});
      row->runs.push_back({&file, &model});
    }
  }
  for (Table& table : tables) {
    for (Row& row : table.rows) keep_newest(&row);
  }
  std::stable_sort(tables.begin(), tables.end(), [](const Table& a, const Table& b) {
    return std::tie(a.machine, a.series) < std::tie(b.machine, b.series);
  });
  return tables;
}

std::string number(double value) {
  return fmt::format("{:.{}f}", value, value < 1 ? 3 : value < 10 ? 2 : 1);
}

std::string with_range(const Spread& s, std::size_t runs) {
  if (runs < 2) return number(s.middle);
  return fmt::format("{} ({}-{})", number(s.middle), number(s.low), number(s.high));
}

std::string ratio_text(const Spread& s, std::size_t runs) {
  if (runs < 2) return fmt::format("{:.2f}", s.middle);
  return fmt::format("{:.2f} ({:.2f}-{:.2f})", s.middle, s.low, s.high);
}

Spread ours(const Row& row) {
  std::vector<double> ms;
  for (const Run& r : row.runs) ms.push_back(r.model->median_us * 1e-3);
  return spread(std::move(ms));
}

// The best peer of each run; `any`: in whatever precision it computes.
std::vector<double> best_ratios(const Row& row, bool any) {
  std::vector<double> out;
  for (const Run& r : row.runs) {
    double best = std::numeric_limits<double>::infinity();
    for (const PeerTime& p : r.model->peers) {
      if (any || p.same_precision) best = std::min(best, p.ratio);
    }
    if (std::isfinite(best)) out.push_back(best);
  }
  return out;
}

std::string best_cell(const Row& row, bool any) {
  std::vector<double> ratios = best_ratios(row, any);
  if (ratios.empty()) return "";
  const std::size_t runs = ratios.size();
  return ratio_text(spread(std::move(ratios)), runs);
}

std::string peer_cell(const Row& row, const std::string& name) {
  std::vector<double> ms;
  bool same = true;
  for (const Run& r : row.runs) {
    for (const PeerTime& p : r.model->peers) {
      if (p.name != name) continue;
      ms.push_back(p.median_us * 1e-3);
      same = same && p.same_precision;
    }
  }
  if (ms.empty()) return "";
  const std::size_t runs = ms.size();
  return with_range(spread(std::move(ms)), runs) + (same ? "" : "~");
}

struct Mean {
  double value = 0;
  int ahead = 0, compared = 0;
};

Mean mean_ratio(const std::vector<Row>& rows, bool any) {
  Mean mean;
  double logs = 0;
  for (const Row& row : rows) {
    std::vector<double> ratios = best_ratios(row, any);
    if (ratios.empty()) continue;
    const double middle = spread(std::move(ratios)).middle;
    logs += std::log(middle);
    mean.ahead += middle > 1 ? 1 : 0;
    ++mean.compared;
  }
  if (mean.compared > 0) mean.value = std::exp(logs / mean.compared);
  return mean;
}

std::string mean_cell(const std::vector<Row>& rows, bool any) {
  const Mean mean = mean_ratio(rows, any);
  return mean.compared == 0 ? "" : fmt::format("**{:.2f}**", mean.value);
}

// Without what every row of the table shares.
std::string plain_name(const std::string& name) {
  const std::string model(without_zoo(name));
  const std::size_t batch = model.find("@batch=");
  return batch == std::string::npos ? model : model.substr(0, batch);
}

std::string heading(const Series& s) {
  std::string text = fmt::format("{}, batch {}", s.dtype, s.batch);
  if (s.device != "cpu") return text;
  return fmt::format("{}, {} {}", text, s.threads, s.threads == 1 ? "thread" : "threads");
}

std::string title(const Series& s) {
  return s.device == "cpu" ? heading(s) : s.device + ", " + heading(s);
}

// The command of a run that timed this row alone, without the name: others differ in that alone.
std::string without_name(const std::string& command, const Row& row) {
  const std::string name = " zoo:" + plain_name(row.name) + " ";
  const std::size_t at = command.find(name);
  if (at == std::string::npos) return command;
  return command.substr(0, at) + " zoo:NETWORK " + command.substr(at + name.size());
}

std::string command_lines(const std::vector<Row>& rows) {
  std::map<std::string, std::set<std::string>> commands;  // by what they share
  std::map<std::string, std::vector<std::string>> names;  // of the rows they timed
  for (const Row& row : rows) {
    std::set<std::string> mine;
    for (const Run& r : row.runs) {
      const std::string shared = without_name(r.file->command, row);
      commands[shared].insert(r.file->command);
      mine.insert(shared);
    }
    for (const std::string& shared : mine) names[shared].push_back(plain_name(row.name));
  }
  std::string text;
  for (const auto& [shared, whole] : commands) {
    text += whole.size() == 1 ? *whole.begin() : shared;
    const bool some = whole.size() > 1 && names[shared].size() < rows.size();
    if (some) text += fmt::format("  # {}", fmt::join(names[shared], " "));
    text += "\n";
  }
  return text;
}

// What the rows of tables were measured with, and on which days.
struct Origin {
  std::set<std::string> versions, dates;

  void add(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      for (const Run& r : row.runs) {
        versions.insert(r.file->version);
        dates.insert(r.file->date.substr(0, 10));
      }
    }
  }
};

// "Version 0.1.0 (e4d8b83); 3 runs per row; measured on DAY, DAY.", and the commands.
std::string provenance(const std::vector<Row>& rows) {
  Origin origin;
  origin.add(rows);
  std::set<std::string> notes;
  std::size_t least = std::numeric_limits<std::size_t>::max(), most = 0;
  for (const Row& row : rows) {
    least = std::min(least, row.runs.size());
    most = std::max(most, row.runs.size());
    for (const Run& r : row.runs) {
      if (!r.file->note.empty()) notes.insert(r.file->note);
    }
  }
  const std::string runs =
      least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most);
  std::string text =
      fmt::format("Version {}; {} {} per row; measured on {}.", fmt::join(origin.versions, ", "),
                  runs, most == 1 ? "run" : "runs", fmt::join(origin.dates, ", "));
  for (const std::string& note : notes) text += " " + note;
  return text + "\n\n```sh\n" + command_lines(rows) + "```\n";
}

std::vector<std::string> peer_names(const std::vector<Row>& rows) {
  std::set<std::string> names;
  for (const Row& row : rows) {
    for (const Run& r : row.runs) {
      for (const PeerTime& p : r.model->peers) names.insert(p.name);
    }
  }
  return {names.begin(), names.end()};
}

std::string page_table(const Table& table) {
  const std::vector<std::string> peers = peer_names(table.rows);
  std::string text = "|network|Tessera|";
  for (const std::string& name : peers) text += fmt::format("{}|", name);
  text += "same precision|as they come|\n|---|---:|";
  for (std::size_t i = 0; i < peers.size(); ++i) text += "---:|";
  text += "---:|---:|\n";
  for (const Row& row : table.rows) {
    text += fmt::format("|{}|{}{}|", plain_name(row.name), with_range(ours(row), row.runs.size()),
                        row.disturbed ? " (disturbed)" : "");
    for (const std::string& name : peers) text += fmt::format("{}|", peer_cell(row, name));
    text += fmt::format("{}|{}|\n", best_cell(row, false), best_cell(row, true));
  }
  text += "|geometric mean||";
  for (std::size_t i = 0; i < peers.size(); ++i) text += "|";
  return text + fmt::format("{}|{}|\n", mean_cell(table.rows, false), mean_cell(table.rows, true));
}

std::string peer_versions(const Table& table) {
  std::map<std::string, std::set<std::string>> versions;
  for (const Row& row : table.rows) {
    for (const Run& r : row.runs) {
      for (const PeerTime& p : r.model->peers) versions[p.name].insert(p.version);
    }
  }
  std::vector<std::string> parts;
  parts.reserve(versions.size());
  for (const auto& [name, texts] : versions)
    parts.push_back(fmt::format("`{}`: {}", name, fmt::join(texts, "; ")));
  return parts.empty() ? "" : fmt::format("Peers: {}.\n", fmt::join(parts, " · "));
}

std::string description_of(const std::vector<BenchRunFile>& runs, const std::string& machine) {
  std::string text;
  for (const BenchRunFile& file : runs) {
    if (file.machine == machine) text = file.description;
  }
  return text;
}

constexpr const char* kLegend =
    "`./do results` writes this page from the runs in `bench/results`; a test compares the two.\n"
    "\n"
    "Times are in milliseconds per call: the median of a run, and where there are several runs the "
    "median of those, with the\n"
    "smallest and the largest in parentheses. Each library ran in a process of its own, in turns "
    "with Tessera in the same run,\n"
    "on the same inputs with the same number of threads. A ratio is the time of the **fastest** "
    "peer of a run divided by\n"
    "Tessera's: above 1, Tessera is faster. \"Same precision\" compares peers whose outputs agree "
    "within the tolerance of the\n"
    "type; \"as they come\" all of them, those included that compute f32 models in fewer bits by "
    "default (marked `~`).\n"
    "Tessera is untuned and computes in the precision of the table. The last row is the geometric "
    "mean of the rows above it.\n"
    "In rows marked as disturbed, threads of Tessera waited for a core in most samples of every "
    "run: other work ran, or every\n"
    "core computes and none is left for the system. `zoo:NETWORK` stands for each network of a "
    "table in turn.\n";

}  // namespace

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {values.front(), (values[(n - 1) / 2] + values[n / 2]) / 2, values.back()};
}

std::map<std::string, std::string> result_pages(const std::vector<BenchRunFile>& runs) {
  std::map<std::string, std::string> pages;
  for (const Table& table : tables_of(runs)) {
    std::string& page = pages[table.machine];
    if (page.empty()) {
      page = fmt::format("# {}\n\n{}\n\n{}", table.machine, description_of(runs, table.machine),
                         kLegend);
    }
    page += fmt::format("\n## {}\n\n{}\n{}\n{}", title(table.series), provenance(table.rows),
                        page_table(table), peer_versions(table));
  }
  return pages;
}

namespace {

// The tables of a summary: batch 1, and of processors those with the most threads.
std::vector<const Table*> summarised(const std::vector<Table>& tables, const std::string& machine) {
  int most = 0;
  for (const Table& t : tables) {
    if (t.machine == machine && t.series.device == "cpu") most = std::max(most, t.series.threads);
  }
  std::vector<const Table*> out;
  for (const Table& t : tables) {
    const bool chosen =
        t.series.batch == 1 && (t.series.device != "cpu" || t.series.threads == most);
    if (t.machine == machine && chosen) out.push_back(&t);
  }
  return out;
}

std::string summary_rows(const std::vector<const Table*>& chosen) {
  std::vector<std::string> names;
  for (const Table* t : chosen) {
    for (const Row& row : t->rows) {
      if (std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
    }
  }
  std::string text;
  for (const std::string& name : names) {
    text += fmt::format("|{}|", plain_name(name));
    for (const Table* t : chosen) {
      const auto row = std::find_if(t->rows.begin(), t->rows.end(),
                                    [&](const Row& r) { return r.name == name; });
      if (row == t->rows.end()) {
        text += "|||";
        continue;
      }
      const auto middle = [&](bool any) {
        std::vector<double> ratios = best_ratios(*row, any);
        return ratios.empty() ? "" : fmt::format("{:.2f}", spread(std::move(ratios)).middle);
      };
      text += fmt::format("{}{}|{}|{}|", number(ours(*row).middle),
                          row->disturbed ? " (disturbed)" : "", middle(false), middle(true));
    }
    text += "\n";
  }
  text += "|geometric mean|";
  for (const Table* t : chosen) {
    text += fmt::format("|{}|{}|", mean_cell(t->rows, false), mean_cell(t->rows, true));
  }
  return text + "\n";
}

std::string ahead_text(const Table& t) {
  const Mean same = mean_ratio(t.rows, false), any = mean_ratio(t.rows, true);
  if (same.compared == 0) return "";
  return fmt::format(
      "- {}: faster than the fastest library of the same precision on {} of {} networks "
      "(geometric mean {:.2f}),\n"
      "  and than the fastest as they come on {} of {} (geometric mean {:.2f})\n",
      heading(t.series), same.ahead, same.compared, same.value, any.ahead, any.compared, any.value);
}

}  // namespace

std::string result_summary(const std::vector<BenchRunFile>& runs,
                           const std::vector<std::string>& machines,
                           const std::string& page_folder) {
  const std::vector<Table> tables = tables_of(runs);
  std::string text;
  for (const std::string& machine : machines) {
    const std::vector<const Table*> chosen = summarised(tables, machine);
    if (chosen.empty()) continue;
    text += fmt::format("\n**[{}]({}/{}.md)**: {}\n\n", machine, page_folder, machine,
                        description_of(runs, machine));
    Origin origin;
    for (const Table* t : chosen) origin.add(t->rows);
    text += fmt::format("Version {}; measured on {}.\n\n", fmt::join(origin.versions, ", "),
                        fmt::join(origin.dates, ", "));
    for (const Table* t : chosen) text += ahead_text(*t);
    text += "\n|network|";
    for (const Table* t : chosen)
      text += fmt::format("ms, {}|same precision|as they come|", heading(t->series));
    text += "\n|---|";
    for (std::size_t i = 0; i < chosen.size(); ++i) text += "---:|---:|---:|";
    text += "\n" + summary_rows(chosen);
  }
  return text;
}

Result<std::string> with_generated(const std::string& document, const std::string& block) {
  const std::size_t begin = document.find(kBegin), end = document.find(kEnd);
  const bool once = begin != std::string::npos && end != std::string::npos && begin < end &&
                    document.find(kBegin, begin + 1) == std::string::npos;
  if (!once) {
    return make_error(ErrorCode::kInvalidArgument,
                      "it needs one line '<!-- generated: begin -->' and one '<!-- generated: end "
                      "-->' after it");
  }
  const std::size_t inside = begin + std::string(kBegin).size();
  return document.substr(0, inside) + block + document.substr(end);
}

}  // namespace tessera::report
