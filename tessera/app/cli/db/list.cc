// tessera db list: sessions and tasks.
#include <ctime>
#include <map>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/support/counted.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

using record::Database;

std::string date_text(std::int64_t unix_time) {
  if (unix_time <= 0) return "-";
  const std::time_t time = static_cast<std::time_t>(unix_time);
  std::tm parts{};
  gmtime_r(&time, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min);
}

// Behind the name of what was timed.
const char* subject_text(record::Subject subject) {
  switch (subject) {
    case record::Subject::kKernel:
      return "";
    case record::Subject::kInPlace:
      return " (in place)";
    case record::Subject::kModel:
      return " (whole model)";
  }
  return "";
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
  const record::Filter filter{.targets = targets_of(args), .subject = std::nullopt};
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
    fmt::print("{:>8} {:>7} {:>12} {:>9}  {} {}{}\n", t.records, t.records - t.timed,
               duration_text(t.best_s),
               flops > 0 && t.best_s > 0 ? fmt::format("{:.2f}", flops / t.best_s * 1e-9) : "-",
               t.task, it == l.rows.end() ? "" : it->second.name, subject_text(t.subject));
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
                     {"subject", record::to_text(t.subject)},
                     {"name", row.name},
                     {"flops", row.flops},
                     {"bytes", row.bytes},
                     {"records", t.records},
                     {"failed", t.records - t.timed},
                     {"best_s", t.best_s > 0 ? Json(t.best_s) : Json()}});
  }
  return {{"records", l.records}, {"sessions", sessions}, {"tasks", tasks}};
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

}  // namespace tessera::cli
