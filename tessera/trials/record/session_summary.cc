#include "tessera/trials/record/session_summary.h"

#include <filesystem>

#include "tessera/trials/record/statement.h"

namespace tessera::record {
namespace {

constexpr const char* kTable =
    "CREATE TABLE IF NOT EXISTS session_summaries (session INTEGER PRIMARY KEY, text TEXT NOT "
    "NULL)";

Result<bool> holds(const Connection& connection, const char* sql, std::int64_t id) {
  TESSERA_TRY(Statement select, connection.prepare(sql));
  if (id > 0) select.bind(0, id);
  TESSERA_TRY(const bool row, select.step());
  select.reset();
  return row;
}

// In a folder where nothing can be written nobody else writes either (database.cc).
Result<Connection> open_to_read(const std::string& path) {
  Result<Connection> connection = Connection::open(path, Connection::Mode::kRead);
  if (connection.ok()) {
    const Result<std::int64_t> works = connection->query_integer("SELECT 1 FROM sqlite_master");
    if (works.ok()) return connection;
  }
  std::error_code error;
  if (std::filesystem::exists(path + "-wal", error)) return connection;
  return Connection::open(path, Connection::Mode::kImmutable);
}

}  // namespace

Result<void> keep_session_summary(const std::string& path, std::int64_t session,
                                  const std::string& summary) {
  TESSERA_TRY(const Connection connection, Connection::open(path, Connection::Mode::kCreate));
  TESSERA_TRY(Transaction transaction, Transaction::begin(connection));
  TESSERA_TRY(const bool known, holds(connection, "SELECT 1 FROM sessions WHERE id = ?", session));
  if (!known) {
    return make_error(ErrorCode::kInvalidArgument, "{}: has no session {}", path, session);
  }
  TESSERA_DO(connection.execute(kTable));
  TESSERA_TRY(Statement put, connection.prepare("INSERT OR REPLACE INTO session_summaries (session,"
                                                " text) VALUES (?, ?)"));
  put.bind(0, session);
  put.bind(1, summary);
  TESSERA_TRY([[maybe_unused]] const bool row, put.step());
  return transaction.commit();
}

Result<std::map<std::int64_t, std::string>> session_summaries(const std::string& path) {
  std::map<std::int64_t, std::string> out;
  TESSERA_TRY(const Connection connection, open_to_read(path));
  TESSERA_TRY(const bool any,
              holds(connection, "SELECT 1 FROM sqlite_master WHERE name = 'session_summaries'", 0));
  if (!any) return out;
  TESSERA_TRY(Statement select, connection.prepare("SELECT session, text FROM session_summaries"));
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return out;
    out[select.integer(0)] = select.text(1);
  }
}

}  // namespace tessera::record
