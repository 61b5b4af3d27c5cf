// All of a database into another, and what is old out of it.
#include <utility>

#include "tessera/trials/record/database_impl.h"
#include "tessera/trials/record/schema.h"
#include "tessera/trials/record/session_summary.h"

namespace tessera::record {
namespace {

// After rows with ids of their own: a server counts on from the largest.
constexpr const char* kContinueIds =
    "SELECT setval(pg_get_serial_sequence('records', 'id'), max(id)) FROM records;"
    "SELECT setval(pg_get_serial_sequence('sessions', 'id'), max(id)) FROM sessions";

}  // namespace

Result<void> Database::Impl::copy_rows(const Connection& from) {
  TESSERA_TRY(const std::vector<SessionRow> sessions, sessions_of(from));
  TESSERA_TRY(Statement add_session,
              connection.prepare(
                  "INSERT INTO sessions (model, target, options, version, threads, seed, started,"
                  " ended, state, id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  for (const SessionRow& session : sessions) {
    bind_session(session, add_session);
    add_session.bind(9, session.id);
    TESSERA_DO(add_session.finish());
  }
  TESSERA_TRY(const std::vector<TaskRow> tasks, tasks_of(from));
  TESSERA_TRY(Statement add_task,
              connection.prepare("INSERT INTO tasks (key, name, definition, flops, bytes)"
                                 " VALUES (?, ?, ?, ?, ?)"));
  for (const TaskRow& task : tasks) {
    bind_task(task, add_task);
    TESSERA_DO(add_task.finish());
  }
  TESSERA_TRY(const auto summaries, session_summaries_of(from));
  for (const auto& [session, text] : summaries) {
    TESSERA_DO(put_session_summary(connection, session, text));
  }
  return {};
}

// With what it told at its end.
Result<bool> Database::Impl::remove_if_empty(std::int64_t session) {
  TESSERA_TRY(const std::int64_t left,
              connection.query_integer(
                  fmt::format("SELECT count(*) FROM records WHERE session = {}", session)));
  if (left > 0 || session == 0) return false;
  TESSERA_DO(connection.execute(fmt::format("DELETE FROM sessions WHERE id = {}", session)));
  TESSERA_TRY(const bool told, connection.has_table("session_summaries"));
  if (told) {
    TESSERA_DO(connection.execute(
        fmt::format("DELETE FROM session_summaries WHERE session = {}", session)));
  }
  return true;
}

Result<std::int64_t> Database::copy_from(const Database& other) {
  const std::lock_guard lock(impl_->writing);
  const Connection& connection = impl_->connection;
  std::int64_t copied = 0;
  bool again = false;
  const auto copy = [&]() -> Result<void> {
    if (std::exchange(again, true)) impl_->forget();
    copied = 0;
    for (const char* table : {"sessions", "tasks", "records"}) {
      TESSERA_TRY(const std::int64_t rows,
                  connection.query_integer(fmt::format("SELECT count(*) FROM {}", table)));
      if (rows == 0) continue;
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: is not empty (it has {} {}); `tessera db merge` adds to what is there",
                        name(), rows, table);
    }
    TESSERA_DO(impl_->copy_rows(other.impl_->connection));
    TESSERA_TRY(Statement add, connection.prepare(kInsertRecordWithId));
    Result<void> added;
    TESSERA_DO(other.visit({.subject = std::nullopt}, [&](const Record& record) {
      added = impl_->bind_record(add, record);
      if (!added.ok()) return false;
      add.bind(kIdParameter, record.id);
      added = add.finish();
      ++copied;
      return added.ok();
    }));
    TESSERA_DO(added);
    TESSERA_TRY(const std::int64_t version, content_version(other.impl_->connection));
    TESSERA_DO(keep_content_version(connection, version));
    return connection.is_server() ? connection.execute(kContinueIds) : Result<void>();
  };
  const Result<void> done = connection.transact(copy);
  if (done.ok()) return copied;
  impl_->forget();
  return done.error();
}

Result<void> Database::remove(std::int64_t session, const std::vector<Record>& records) {
  if (records.empty()) return {};
  const std::lock_guard lock(impl_->writing);
  return impl_->connection.transact([&]() -> Result<void> {
    TESSERA_TRY(Statement gone, impl_->connection.prepare(
                                    "DELETE FROM records WHERE session = ? AND trial = ? AND "
                                    "digest = ? AND task = (SELECT id FROM texts WHERE text = ?)"));
    for (const Record& r : records) {
      gone.bind(0, session);
      gone.bind(1, r.trial);
      gone.bind(2, r.schedule_digest);
      gone.bind(3, r.task);
      TESSERA_DO(gone.finish());
    }
    return {};
  });
}

Result<Pruned> Database::prune(const PruneFilter& filter, bool only_count) {
  const std::lock_guard lock(impl_->writing);
  const Connection& connection = impl_->connection;
  TESSERA_TRY(const std::vector<SessionRow> now, sessions());
  std::string running = "-1";
  for (const SessionRow& session : now) {
    if (session.state == "running") running += fmt::format(", {}", session.id);
  }
  std::string which = fmt::format(" WHERE session NOT IN ({})", running);
  if (filter.before > 0) which += " AND time < ?";
  if (filter.session > 0) which += " AND session = ?";
  if (!filter.machine.empty()) {
    which +=
        " AND target IN (SELECT id FROM texts WHERE text = ? OR "
        "substr(text, 1, length(CAST(? AS TEXT))) = ?)";
  }
  const std::string begins = filter.machine + " ";
  const auto prepared = [&](const std::string& sql, const char* end) -> Result<Statement> {
    TESSERA_TRY(Statement statement, connection.prepare(sql + which + end));
    int next = 0;
    if (filter.before > 0) statement.bind(next++, filter.before);
    if (filter.session > 0) statement.bind(next++, filter.session);
    if (!filter.machine.empty()) {
      for (const std::string* text : {&filter.machine, &begins, &begins}) {
        statement.bind(next++, *text);
      }
    }
    return statement;
  };
  Pruned out;
  const auto remove = [&]() -> Result<void> {
    out = {};
    TESSERA_TRY(Statement touched,
                prepared("SELECT session, count(*) FROM records", " GROUP BY session"));
    std::vector<std::int64_t> sessions;
    while (true) {
      TESSERA_TRY(const bool row, touched.step());
      if (!row) break;
      sessions.push_back(touched.integer(0));
      out.records += touched.integer(1);
    }
    TESSERA_TRY(Statement gone, prepared("DELETE FROM records", ""));
    TESSERA_DO(gone.finish());
    for (const std::int64_t session : sessions) {
      TESSERA_TRY(const bool removed, impl_->remove_if_empty(session));
      out.sessions += removed ? 1 : 0;
    }
    return {};
  };
  if (!only_count) {
    TESSERA_DO(connection.transact(remove));
    return out;
  }
  TESSERA_TRY(const Transaction rolled_back, Transaction::begin(connection));
  TESSERA_DO(remove());
  return out;
}

}  // namespace tessera::record
