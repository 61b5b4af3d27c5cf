#include "tessera/trials/record/session_summary.h"

#include <filesystem>

#include "tessera/trials/record/database_name.h"
#include "tessera/trials/record/statement.h"

namespace tessera::record {
namespace {

constexpr const char* kTable =
    "CREATE TABLE IF NOT EXISTS session_summaries (session INTEGER PRIMARY KEY, text TEXT NOT "
    "NULL)";

// In a folder where nothing can be written nobody else writes either (database.cc).
Result<Connection> open_to_read(const std::string& path) {
  Result<Connection> connection = Connection::open(path, Connection::Mode::kRead);
  if (is_server_url(path)) return connection;
  if (connection.ok()) {
    const Result<std::int64_t> works = connection->query_integer("SELECT 1 FROM sqlite_master");
    if (works.ok()) return connection;
  }
  std::error_code error;
  if (std::filesystem::exists(path + "-wal", error)) return connection;
  return Connection::open(path, Connection::Mode::kImmutable);
}

}  // namespace

Result<void> put_session_summary(const Connection& connection, std::int64_t session,
                                 const std::string& summary) {
  TESSERA_TRY(const bool there, connection.has_table("session_summaries"));
  if (!there) TESSERA_DO(connection.define(kTable));
  TESSERA_TRY(Statement put, connection.prepare("INSERT INTO session_summaries (session, text) "
                                                "VALUES (?, ?) ON CONFLICT (session) DO UPDATE "
                                                "SET text = excluded.text"));
  put.bind(0, session);
  put.bind(1, summary);
  return put.finish();
}

Result<void> keep_session_summary(const std::string& path, std::int64_t session,
                                  const std::string& summary) {
  TESSERA_TRY(const Connection connection, Connection::open(path, Connection::Mode::kCreate));
  return connection.transact([&]() -> Result<void> {
    TESSERA_TRY(Statement find, connection.prepare("SELECT 1 FROM sessions WHERE id = ?"));
    find.bind(0, session);
    TESSERA_TRY(const bool known, find.step());
    if (!known) {
      return make_error(ErrorCode::kInvalidArgument, "{}: has no session {}", connection.name(),
                        session);
    }
    find.reset();
    return put_session_summary(connection, session, summary);
  });
}

Result<std::map<std::int64_t, std::string>> session_summaries(const std::string& path) {
  TESSERA_TRY(const Connection connection, open_to_read(path));
  return session_summaries_of(connection);
}

Result<std::map<std::int64_t, std::string>> session_summaries_of(const Connection& connection) {
  std::map<std::int64_t, std::string> out;
  TESSERA_TRY(const bool any, connection.has_table("session_summaries"));
  if (!any) return out;
  TESSERA_TRY(Statement select, connection.prepare("SELECT session, text FROM session_summaries"));
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return out;
    out[select.integer(0)] = select.text(1);
  }
}

}  // namespace tessera::record
