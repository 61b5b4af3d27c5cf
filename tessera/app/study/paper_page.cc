// Results of studies as Markdown.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

#include <fmt/ranges.h>

#include "tessera/app/study/paper_study.h"
#include "tessera/support/split_commas.h"

namespace tessera::app {
namespace {

std::string number_text(double value) {
  return std::abs(value) < 100 ? fmt::format("{:.3f}", value) : fmt::format("{:.1f}", value);
}

// Of things that were counted: as they are.
std::string count_text(double value) {
  return value == std::round(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}", value);
}

struct Ends {
  double low, high;
};

Ends ends_of(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

// The least and the most over the seeds.
std::string ends_text(const std::vector<double>& values) {
  if (values.size() < 2) return number_text(values.front());
  const Ends ends = ends_of(values);
  const std::string low = number_text(ends.low), high = number_text(ends.high);
  return low == high ? low : low + "-" + high;
}

// How a range lies beside that of the first row.
int side_of(const std::vector<double>& values, const std::vector<double>& first) {
  const Ends own = ends_of(values), other = ends_of(first);
  return own.low > other.high ? 1 : own.high < other.low ? -1 : 0;
}

// A cell of the page: "**0.990-0.997**" where it is above that of the first row.
std::string page_cell(const StudyResult& r, const StudyRow& row, std::size_t column) {
  const std::vector<double>& values = row.values[column];
  if (r.measure == kCounts) return count_text(values.front());
  const std::string text = ends_text(values);
  if (r.seeds.size() < 2 || &row == &r.rows.front()) return text;
  const int side = side_of(values, r.rows.front().values[column]);
  return side > 0 ? "**" + text + "**" : side < 0 ? "*" + text + "*" : text;
}

// The columns that the page shows. `measure` is that of the table before, which need not be said
// again.
std::string page_table(const StudyResult& r, const std::string& wanted, std::string* measure) {
  const std::vector<std::string> shown = split_commas(wanted);
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < r.columns.size(); ++c) {
    if (shown.empty() || std::find(shown.begin(), shown.end(), r.columns[c]) != shown.end())
      columns.push_back(c);
  }
  std::string out = "|" + (r.measure == *measure ? "" : r.measure) + "|", rule = "|---|";
  *measure = r.measure;
  for (const std::size_t c : columns) {
    out += r.columns[c] + "|";
    rule += "---:|";
  }
  out += "\n" + rule + "\n";
  for (const StudyRow& row : r.rows) {
    out += "|" + row.name + "|";
    for (const std::size_t c : columns) out += page_cell(r, row, c) + "|";
    out += "\n";
  }
  return out;
}

// "figure 4" as a sentence begins.
std::string capital(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string run_of(const std::string& paper, const std::vector<StudyResult>& results) {
  std::string out, measure;
  for (const StudyResult& r : results) {
    const Result<const PaperStudy*> found = find_study(r.study);
    if (!found.ok() || (*found)->paper != paper) continue;
    const PaperStudy& s = **found;
    const std::string machine = r.machine.empty() ? "" : ", " + r.machine;
    out += fmt::format("\n**{}: {}.** Paper: {}. Here: {}; {}{}; `{}`, {}.\n\n{}", capital(s.item),
                       s.shows, s.theirs, s.note, r.data, machine, r.command,
                       r.date.substr(0, r.date.find('T')), page_table(r, s.columns, &measure));
  }
  return out;
}

// "table 1, 2, figure 6"
std::string list_of(const std::vector<std::string>& items) {
  std::string out, kind;
  for (const std::string& item : items) {
    const std::size_t space = std::min(item.find(' '), item.size());
    const bool again = item.substr(0, space) == kind && space < item.size();
    out += (out.empty() ? "" : ", ") + (again ? item.substr(space + 1) : item);
    kind = item.substr(0, space);
  }
  return out;
}

// "- REASON: figure 8, table 3"
std::string not_run_of(const std::string& paper, const std::vector<StudyResult>& results) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const PaperStudy& s : paper_studies()) {
    const bool done = std::any_of(results.begin(), results.end(),
                                  [&](const StudyResult& r) { return r.study == s.name; });
    if (s.paper != paper || done) continue;
    const std::string reason = s.run == nullptr ? s.note : "not yet: `tessera study`";
    auto at = std::find_if(reasons.begin(), reasons.end(),
                           [&](const auto& known) { return known.first == reason; });
    if (at == reasons.end()) at = reasons.insert(reasons.end(), {reason, {}});
    at->second.emplace_back(s.item);
  }
  std::string out;
  for (const auto& [reason, items] : reasons)
    out += fmt::format("- {}: {}\n", list_of(items), reason);
  return out.empty() ? "" : "\nNot run:\n\n" + out;
}

}  // namespace

std::string range_text(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) /
                      static_cast<double>(std::max<std::size_t>(1, values.size()));
  if (values.size() < 2) return number_text(mean);
  const Ends ends = ends_of(values);
  return fmt::format("{} ({}-{})", number_text(mean), number_text(ends.low),
                     number_text(ends.high));
}

std::string beside_first(const StudyResult& result, const StudyRow& row) {
  std::vector<std::string> above, below;
  for (std::size_t c = 0; c < result.columns.size(); ++c) {
    const int side = side_of(row.values[c], result.rows.front().values[c]);
    if (side > 0) above.push_back(result.columns[c]);
    if (side < 0) below.push_back(result.columns[c]);
  }
  if (above.empty() && below.empty()) return "no difference shown";
  const std::size_t all = result.columns.size();
  const auto list = [&](const char* word, const std::vector<std::string>& columns) {
    if (columns.empty()) return std::string();
    if (columns.size() == all) return std::string(word);
    return fmt::format("{} at {}", word, fmt::join(columns, ", "));
  };
  const std::string between = above.empty() || below.empty() ? "" : "; ";
  return list("above", above) + between + list("below", below);
}

std::string study_table(const StudyResult& r) {
  const bool compares = r.seeds.size() > 1 && r.rows.size() > 1;
  std::string out = fmt::format("|{}|{}|{}\n|---|", r.measure, fmt::join(r.columns, "|"),
                                compares ? "than the first|" : "");
  for (std::size_t c = 0; c < r.columns.size(); ++c) out += "---:|";
  out += compares ? "---|\n" : "\n";
  for (const StudyRow& row : r.rows) {
    out += fmt::format("|{}|", row.name);
    for (const std::vector<double>& values : row.values)
      out += (r.measure == kCounts ? count_text(values.front()) : range_text(values)) + "|";
    if (compares) out += &row == &r.rows.front() ? "|" : beside_first(r, row) + "|";
    out += "\n";
  }
  const std::string machine = r.machine.empty() ? "" : ", " + r.machine;
  const std::string seeds =
      r.seeds.empty() ? "" : fmt::format(", seeds {}", fmt::join(r.seeds, ", "));
  return out + fmt::format("\n`{}`: {}{}{}. ", r.command, r.data, machine, seeds);
}

std::string papers_page(const std::vector<StudyResult>& results) {
  std::string out =
      "# Tables and figures of the papers\n\n"
      "Written by `./do results` from `bench/papers`; `tessera study --list` has every row. A "
      "range is of the seeds, not of the\nchoice of tasks: **bold** is above that of the first "
      "row, *italic* below; those that overlap show no difference. Replayed\nsearches choose among "
      "recorded candidates alone, without the default schedule.\n";
  std::vector<std::string> papers;
  for (const PaperStudy& s : paper_studies()) {
    if (std::find(papers.begin(), papers.end(), s.paper) == papers.end())
      papers.emplace_back(s.paper);
  }
  for (const std::string& paper : papers) {
    out += fmt::format("\n## {}\n", paper);
    out += run_of(paper, results) + not_run_of(paper, results);
  }
  return out;
}

}  // namespace tessera::app
