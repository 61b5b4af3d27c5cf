#include "tessera/trials/record/explain.h"

#include <algorithm>
#include <sstream>

#include <fmt/ranges.h>

#include "tessera/support/quantile.h"
#include "tessera/trials/record/ansor_log.h"
#include "tessera/trials/record/autotvm_log.h"
#include "tessera/trials/record/log_file.h"

namespace tessera::record {
namespace {

using Decisions = std::map<std::string, std::string>;

Decisions own_decisions(const std::string& text) {
  Decisions out;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return out;
  out["sketch"] = text.substr(0, colon);
  std::istringstream words(text.substr(colon + 1));
  for (std::string word; words >> word;) {
    const std::size_t equal = word.find('=');
    if (equal != std::string::npos) out[word.substr(0, equal)] = word.substr(equal + 1);
  }
  return out;
}

// One "key = value" a line.
Decisions plan_decisions(const std::string& text) {
  Decisions out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equal = line.find(" = ");
    if (equal != std::string::npos) out[line.substr(0, equal)] = line.substr(equal + 3);
  }
  return out;
}

Decisions autotvm_decisions(const std::string& text) {
  Decisions out;
  const Result<autotvm::Config> config = autotvm::parse_config(text);
  if (!config.ok()) return out;
  for (const autotvm::Knob& knob : config->knobs) {
    switch (knob.kind) {
      case autotvm::KnobKind::kSplit:
      case autotvm::KnobKind::kReorder:
        out[knob.name] = fmt::format("{}", fmt::join(knob.sizes, "x"));
        break;
      case autotvm::KnobKind::kAnnotate:
        out[knob.name] = fmt::format("{}", fmt::join(knob.words, ","));
        break;
      case autotvm::KnobKind::kOther:
        out[knob.name] = knob.text;
    }
  }
  return out;
}

Decisions ansor_decisions(const std::string& text) {
  Decisions out;
  const Result<std::vector<ansor::Step>> steps = ansor::parse_steps(text);
  if (!steps.ok()) return out;
  for (const ansor::Step& step : *steps) {
    if (const auto* split = std::get_if<ansor::Split>(&step)) {
      out[fmt::format("split.{}.{}", split->stage, split->iter)] =
          fmt::format("{}", fmt::join(split->lengths, "x"));
    } else if (const auto* pragma = std::get_if<ansor::Pragma>(&step)) {
      out[fmt::format("pragma.{}", pragma->stage)] = pragma->text;
    } else if (const auto* at = std::get_if<ansor::ComputeAt>(&step)) {
      out[fmt::format("compute_at.{}", at->stage)] = fmt::format("{}.{}", at->target, at->iter);
    }
  }
  return out;
}

// Times by value of one decision.
using Times = std::map<std::string, std::vector<double>>;

DecisionStatistics statistics_of(const std::string& name, const std::string& best_value,
                                 const Times& times) {
  DecisionStatistics out{.name = name, .best_value = best_value};
  std::vector<double> with, without;
  for (const auto& [value, seconds] : times) {
    out.values.push_back({.value = value,
                          .count = static_cast<std::int64_t>(seconds.size()),
                          .median_s = median(seconds),
                          .best_s = *std::min_element(seconds.begin(), seconds.end())});
    auto& side = value == best_value ? with : without;
    side.insert(side.end(), seconds.begin(), seconds.end());
  }
  std::stable_sort(out.values.begin(), out.values.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  if (!with.empty() && !without.empty() && median(with) > 0) {
    out.effect = median(without) / median(with);
  }
  return out;
}

}  // namespace

Decisions decisions_of(const Record& record) {
  if (record.subject == Subject::kModel) return plan_decisions(record.candidate);
  if (record.format == to_text(LogFormat::kAutotvm)) return autotvm_decisions(record.candidate);
  if (record.format == to_text(LogFormat::kAnsor)) return ansor_decisions(record.candidate);
  return own_decisions(record.candidate);
}

Result<Explanation> explain(const Database& database, const Filter& filter,
                            std::size_t best_count) {
  Explanation out;
  TESSERA_TRY(out.best, database.best(filter, std::max<std::size_t>(best_count, 1)));
  std::map<std::string, Times> times;  // by decision
  std::vector<double> all;
  TESSERA_DO(database.visit(filter, [&](const Record& r) {
    ++out.records;
    if (r.outcome == "ok" || r.outcome == "censored") {
      ++out.timed;
      all.push_back(r.seconds);
      for (const auto& [name, value] : decisions_of(r)) times[name][value].push_back(r.seconds);
    } else {
      ++out.failures[r.outcome];
      ++out.reasons[r.outcome + (r.reason.empty() ? "" : ": " + r.reason)];
    }
    return true;
  }));
  out.median_s = median(all);
  const Decisions best = out.best.empty() ? Decisions() : decisions_of(out.best[0]);
  for (const auto& [name, value] : best) {
    // A decision with one value was none.
    if (times[name].size() > 1) out.decisions.push_back(statistics_of(name, value, times[name]));
  }
  std::stable_sort(out.decisions.begin(), out.decisions.end(),
                   [](const auto& a, const auto& b) { return a.effect > b.effect; });
  if (out.best.size() > best_count) out.best.resize(best_count);
  return out;
}

Result<std::vector<TaskDifference>> compare(const Database& a, const Database& b,
                                            const Filter& filter) {
  std::map<std::string, TaskDifference> tasks;
  TESSERA_TRY(const std::vector<TaskSummary> left, a.summaries(filter));
  for (const TaskSummary& s : left) tasks[s.task].a_s = s.best_s;
  TESSERA_TRY(const std::vector<TaskSummary> right, b.summaries(filter));
  for (const TaskSummary& s : right) tasks[s.task].b_s = s.best_s;
  std::vector<TaskDifference> out;
  for (auto& [key, difference] : tasks) {
    difference.task = key;
    out.push_back(difference);
  }
  return out;
}

}  // namespace tessera::record
