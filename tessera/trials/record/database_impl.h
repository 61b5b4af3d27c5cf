// What database.cc, stored_rows.cc and database_move.cc share.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/trials/record/database.h"
#include "tessera/trials/record/statement.h"

namespace tessera::record {

// Its parameters are those of Database::Impl::bind_record().
extern const char* const kInsertRecord;
// With the id as one more.
extern const char* const kInsertRecordWithId;
inline constexpr int kIdParameter = 27;

std::string select_of(std::int64_t version);

void bind_task(const TaskRow& task, Statement& statement);
Result<std::vector<TaskRow>> tasks_of(const Connection& connection);
void bind_session(const SessionRow& s, Statement& statement);
// States as they are kept: state_now() says what they mean.
Result<std::vector<SessionRow>> sessions_of(const Connection& connection);

struct Database::Impl {
  Impl(Connection c, std::int64_t v)
      : connection(std::move(c)), version(v), select(select_of(version)) {}

  Result<std::int64_t> intern(const std::string& text);
  void bound_ids();  // between records
  // The id of a schedule that is not empty; its lines are kept once.
  Result<std::int64_t> intern_schedule(const Record& record);
  // Those that are new, in one order: writers that add the same ones do not wait for each other.
  Result<void> intern_all(const std::vector<Record>& records);
  Result<void> bind_record(Statement& statement, const Record& record);
  void forget();  // what went with a batch that failed
  Result<Record> record_of(const Statement& row);
  Result<std::string> text_of(std::int64_t id);

  Result<void> copy_rows(const Connection& from);  // all but the records
  Result<bool> remove_if_empty(std::int64_t session);
  Result<void> update_tasks(const std::function<TaskRow(const TaskRow&)>& update);
  Result<std::int64_t> update_records(const std::function<void(Record*)>& update);

  Connection connection;
  std::int64_t version;
  std::string select;
  std::mutex writing;
  // Some of the ids that are on disk or in this batch.
  std::unordered_map<std::string, std::int64_t> texts, schedules;
  std::mutex reading;
  std::unordered_map<std::int64_t, std::string> lines;  // of schedules, by id
};

}  // namespace tessera::record
