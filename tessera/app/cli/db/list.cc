// tessera db list, explain, diff.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/support/counted.h"
#include "tessera/support/nearest_name.h"
#include "tessera/trials/record/explain.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;
using record::Database;

// Three digits and more, to tell near times apart; "-" for none.
std::string duration_text(double seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

std::string date_text(std::int64_t unix_time) {
  if (unix_time <= 0) return "-";
  const std::time_t time = static_cast<std::time_t>(unix_time);
  std::tm parts{};
  gmtime_r(&time, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min);
}

std::vector<std::string> targets_of(const DbArgs& args) {
  if (args.target.empty()) return {};
  return {args.target};
}

struct Listing {
  std::int64_t records = 0;
  std::vector<record::SessionRow> sessions;
  std::vector<record::TaskSummary> tasks;
  std::map<std::string, record::TaskRow> rows;  // by key
};

Result<Listing> listing_of(const DbArgs& args) {
  TESSERA_TRY(const Database database, Database::open_read_only(database_path(args.db)));
  Listing out;
  const record::Filter filter{.targets = targets_of(args)};
  TESSERA_TRY(out.records, database.count(filter));
  TESSERA_TRY(out.sessions, database.sessions());
  TESSERA_TRY(out.tasks, database.summaries(filter));
  TESSERA_TRY(const std::vector<record::TaskRow> rows, database.tasks());
  for (const record::TaskRow& row : rows) out.rows[row.key] = row;
  return out;
}

void print_listing(const Listing& l) {
  fmt::print("{:>4} {:<16} {:<12} {:>8} {:>7}  {}\n", "id", "started", "state", "records",
             "threads", "model");
  for (const record::SessionRow& s : l.sessions) {
    fmt::print("{:>4} {:<16} {:<12} {:>8} {:>7}  {}\n", s.id, date_text(s.started), s.state,
               s.records, s.threads, s.model);
  }
  fmt::print("\n{:>8} {:>7} {:>12} {:>9}  {}\n", "records", "failed", "best", "GFLOP/s", "task");
  for (const record::TaskSummary& t : l.tasks) {
    const auto it = l.rows.find(t.task);
    const double flops = it == l.rows.end() ? 0 : it->second.flops;
    fmt::print("{:>8} {:>7} {:>12} {:>9}  {} {}\n", t.records, t.records - t.timed,
               duration_text(t.best_s),
               flops > 0 && t.best_s > 0 ? fmt::format("{:.2f}", flops / t.best_s * 1e-9) : "-",
               t.task, it == l.rows.end() ? "" : it->second.name);
  }
  fmt::print("{}, {}, {}\n", counted(l.records, "record"), counted(l.sessions.size(), "session"),
             counted(l.tasks.size(), "task"));
}

Json json_of(const Listing& l) {
  Json sessions = Json::array(), tasks = Json::array();
  for (const record::SessionRow& s : l.sessions) {
    sessions.push_back({{"id", s.id},
                        {"model", s.model},
                        {"target", s.target},
                        {"options", s.options},
                        {"version", s.version},
                        {"threads", s.threads},
                        {"seed", s.seed},
                        {"started", s.started},
                        {"ended", s.ended},
                        {"state", s.state},
                        {"records", s.records}});
  }
  for (const record::TaskSummary& t : l.tasks) {
    const auto it = l.rows.find(t.task);
    const record::TaskRow row = it == l.rows.end() ? record::TaskRow() : it->second;
    tasks.push_back({{"key", t.task},
                     {"name", row.name},
                     {"flops", row.flops},
                     {"bytes", row.bytes},
                     {"records", t.records},
                     {"failed", t.records - t.timed},
                     {"best_s", t.best_s > 0 ? Json(t.best_s) : Json()}});
  }
  return {{"records", l.records}, {"sessions", sessions}, {"tasks", tasks}};
}

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
  const record::Filter filter{.task = args.task, .targets = targets_of(args)};
  TESSERA_TRY(record::Explanation out,
              record::explain(database, filter, static_cast<std::size_t>(args.top)));
  if (out.records > 0) return out;
  TESSERA_TRY(const std::vector<record::TaskSummary> tasks, database.summaries({}));
  std::vector<std::string> keys;
  for (const record::TaskSummary& t : tasks) keys.push_back(t.task);
  return make_error(ErrorCode::kInvalidArgument, "{}: has no records of task '{}'{}",
                    database_path(args.db), args.task, suggest_name(args.task, keys));
}

Result<std::vector<record::TaskDifference>> differences_of(const DbArgs& args) {
  TESSERA_TRY(const Database a, Database::open_read_only(args.files.at(0)));
  TESSERA_TRY(const Database b, Database::open_read_only(args.files.at(1)));
  return record::compare(a, b, {.targets = targets_of(args)});
}

struct Comparison {
  int a = 0, b = 0, equal = 0, common = 0;
  double log_ratio = 0;
};

Comparison compare_all(const std::vector<record::TaskDifference>& list) {
  Comparison c;
  for (const record::TaskDifference& d : list) {
    if (d.a_s <= 0 || d.b_s <= 0) continue;
    ++c.common;
    c.log_ratio += std::log(d.a_s / d.b_s);
    ++(d.a_s < d.b_s ? c.a : d.b_s < d.a_s ? c.b : c.equal);
  }
  return c;
}

const char* better(const record::TaskDifference& d) {
  if (d.a_s <= 0 || d.b_s <= 0) return d.a_s > 0 ? "only A" : d.b_s > 0 ? "only B" : "-";
  return d.a_s < d.b_s ? "A" : d.b_s < d.a_s ? "B" : "=";
}

}  // namespace

int db_list(const DbArgs& args) {
  const Result<Listing> listing = listing_of(args);
  if (!listing) return report(listing.error());
  if (args.json) {
    print_json(json_of(*listing));
  } else {
    print_listing(*listing);
  }
  return kOk;
}

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

int db_diff(const DbArgs& args) {
  const Result<std::vector<record::TaskDifference>> list = differences_of(args);
  if (!list) return report(list.error());
  const Comparison c = compare_all(*list);
  const double mean = c.common > 0 ? std::exp(c.log_ratio / c.common) : 0;
  if (args.json) {
    Json tasks = Json::array();
    for (const record::TaskDifference& d : *list) {
      tasks.push_back({{"task", d.task},
                       {"a_s", d.a_s > 0 ? Json(d.a_s) : Json()},
                       {"b_s", d.b_s > 0 ? Json(d.b_s) : Json()},
                       {"better", better(d)}});
    }
    print_json({{"a", args.files[0]},
                {"b", args.files[1]},
                {"tasks", tasks},
                {"geometric_mean_a_over_b", mean > 0 ? Json(mean) : Json()}});
    return kOk;
  }
  fmt::print("{:>12} {:>12} {:>8} {:>7}  {}\n", "A", "B", "A / B", "better", "task");
  for (const record::TaskDifference& d : *list) {
    const bool both = d.a_s > 0 && d.b_s > 0;
    fmt::print("{:>12} {:>12} {:>8} {:>7}  {}\n", duration_text(d.a_s), duration_text(d.b_s),
               both ? fmt::format("{:.3f}", d.a_s / d.b_s) : "-", better(d), d.task);
  }
  fmt::print("A is faster on {}, B on {} of {} common tasks", c.a, c.b, c.common);
  fmt::print("{}\n", mean > 0 ? fmt::format("; A / B is {:.3f} in the geometric mean", mean) : "");
  return kOk;
}

}  // namespace tessera::cli
