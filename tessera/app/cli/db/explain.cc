// tessera db explain: what sets the best records of a task apart.
#include "tessera/trials/record/explain.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/support/json.h"
#include "tessera/support/nearest_name.h"

namespace tessera::cli {
namespace {

using record::Database;

Json json_of(const record::Explanation& e) {
  Json best = Json::array(), decisions = Json::array();
  for (const record::Record& r : e.best) {
    best.push_back({{"id", r.id},
                    {"seconds", r.seconds},
                    {"candidate", r.candidate},
                    {"session", r.session},
                    {"policy", r.policy},
                    {"trial", r.trial}});
  }
  for (const record::DecisionStatistics& d : e.decisions) {
    Json values = Json::array();
    for (const record::ValueStatistics& v : d.values) {
      values.push_back({{"value", v.value},
                        {"records", v.count},
                        {"median_s", v.median_s},
                        {"best_s", v.best_s}});
    }
    decisions.push_back(
        {{"name", d.name}, {"best_value", d.best_value}, {"effect", d.effect}, {"values", values}});
  }
  return {{"records", e.records}, {"timed", e.timed},       {"median_s", e.median_s},
          {"best", best},         {"decisions", decisions}, {"failures", e.failures},
          {"reasons", e.reasons}};
}

constexpr std::size_t kShownValues = 4;

void print_explanation(const record::Explanation& e) {
  fmt::print("{} records, {} timed, median {}\n", e.records, e.timed, duration_text(e.median_s));
  if (!e.best.empty()) fmt::print("\nbest:\n");
  for (const record::Record& r : e.best) {
    fmt::print("  {:>12}  #{} {}\n", duration_text(r.seconds), r.id, r.candidate);
  }
  if (!e.decisions.empty()) {
    fmt::print("\n{:<24} {:<16} {:>8}  {}\n", "decision", "best has", "effect",
               "others: value (records, median)");
  }
  for (const record::DecisionStatistics& d : e.decisions) {
    std::vector<std::string> others;
    for (const record::ValueStatistics& v : d.values) {
      if (v.value == d.best_value) continue;
      if (others.size() == kShownValues) {
        others.push_back(fmt::format("and {} more", d.values.size() - 1 - kShownValues));
        break;
      }
      others.push_back(fmt::format("{} ({}, {})", v.value, v.count, duration_text(v.median_s)));
    }
    fmt::print("{:<24} {:<16} {:>7.2f}x  {}\n", d.name, d.best_value, d.effect,
               fmt::join(others, ", "));
  }
  if (!e.reasons.empty()) fmt::print("\nfailures:\n");
  std::vector<std::pair<std::string, std::int64_t>> reasons(e.reasons.begin(), e.reasons.end());
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [reason, count] : reasons) fmt::print("  {:>6}  {}\n", count, reason);
}

Result<record::Explanation> explanation_of(const DbArgs& args) {
  TESSERA_TRY(const Database database, Database::open_read_only(database_path(args.db)));
  for (const record::Subject subject :
       {record::Subject::kKernel, record::Subject::kInPlace, record::Subject::kModel}) {
    if (!args.subject.empty() && args.subject != record::to_text(subject)) continue;
    TESSERA_TRY(record::Explanation out,
                record::explain(
                    database, {.task = args.task, .targets = targets_of(args), .subject = subject},
                    static_cast<std::size_t>(args.top)));
    if (out.records > 0) return out;
  }
  TESSERA_TRY(const std::vector<record::TaskSummary> tasks,
              database.summaries({.subject = std::nullopt}));
  std::vector<std::string> keys;
  for (const record::TaskSummary& t : tasks) keys.push_back(t.task);
  return make_error(ErrorCode::kInvalidArgument, "{}: has no records of task '{}'{}",
                    database_path(args.db), args.task, suggest_name(args.task, keys));
}

}  // namespace

int db_explain(const DbArgs& args) {
  const Result<record::Explanation> e = explanation_of(args);
  if (!e) return report(e.error());
  if (args.json) {
    Json json = json_of(*e);
    json["task"] = args.task;
    print_json(json);
  } else {
    print_explanation(*e);
  }
  return kOk;
}

}  // namespace tessera::cli
