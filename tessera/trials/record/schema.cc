#include "tessera/trials/record/schema.h"

#include <chrono>
#include <thread>
#include <vector>

#include "tessera/trials/record/row.h"

namespace tessera::record {
namespace {

// Texts that repeat (keys, targets, outcomes, lines of schedules) are kept once. `seconds` is the
// order of best().
constexpr const char* kTables = R"(
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
INSERT INTO texts (text) VALUES ('ok'), ('censored');
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY, model TEXT, target TEXT, options TEXT, version TEXT, threads INTEGER,
  seed INTEGER, started INTEGER, ended INTEGER, state TEXT);
CREATE TABLE tasks (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT, definition TEXT, flops REAL,
  bytes REAL);
CREATE TABLE records (
  id INTEGER PRIMARY KEY, session INTEGER, format INTEGER, task INTEGER, target INTEGER,
  threads INTEGER, candidate TEXT, digest TEXT, outcome INTEGER, reason TEXT, samples BLOB,
  seconds REAL, calibration REAL, build_ms REAL, policy INTEGER, seed INTEGER, trial INTEGER,
  time INTEGER, extra TEXT);
CREATE INDEX records_by_time ON records (task, seconds) WHERE outcome = 1;
INSERT INTO schema_version VALUES (1);
)";

// Rows of one key in the order of their ids: an index of SQLite has the id behind its key.
constexpr const char* kFileOnly = R"(
CREATE INDEX records_by_task ON records (task);
CREATE INDEX records_by_session ON records (session);
)";
constexpr const char* kServerOnly = R"(
CREATE INDEX records_by_task ON records (task, id);
CREATE INDEX records_by_session ON records (session, id);
CREATE TABLE session_summaries (session INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE content_version (version INTEGER NOT NULL);
INSERT INTO content_version VALUES (0);
)";

// A schedule is the list of its lines, by their ids in `texts`.
constexpr const char* kSecondVersion = R"(
CREATE TABLE schedules (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, lines BLOB NOT NULL);
ALTER TABLE records ADD COLUMN schedule INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN quiet INTEGER NOT NULL DEFAULT 0;
UPDATE schema_version SET version = 2;
)";

constexpr const char* kThirdVersion = R"(
ALTER TABLE records ADD COLUMN subject INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE records ADD COLUMN cold INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN evicted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN unchecked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN default_s REAL NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN memory_s REAL NOT NULL DEFAULT 0;
UPDATE schema_version SET version = 3;
)";
static_assert(kSchemaVersion == 3 && kTextOk == 1 && kTextCensored == 2);

constexpr std::int64_t kEmpty = 0;

// The version of the tables, or kEmpty.
Result<std::int64_t> inspect(const Connection& connection) {
  const bool server = connection.is_server();
  TESSERA_TRY(const std::int64_t tables,
              connection.query_integer(
                  server ? "SELECT count(*) FROM pg_tables WHERE schemaname = 'tessera'"
                         : "SELECT count(*) FROM sqlite_master"));
  if (tables == 0) return kEmpty;
  for (const char* table : {"schema_version", "records", "texts"}) {
    TESSERA_TRY(const bool there, connection.has_table(table));
    if (!there) {
      return make_error(ErrorCode::kIo, "{}: is a database of another program{}", connection.name(),
                        server ? ", which has a schema \"tessera\"" : "");
    }
  }
  TESSERA_TRY(const std::int64_t version,
              connection.query_integer("SELECT version FROM schema_version"));
  if (version > kSchemaVersion) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: a newer version of Tessera wrote it (tables of version {}, known: {}); "
                      "update Tessera on this machine, or export with the newer one",
                      connection.name(), version, kSchemaVersion);
  }
  return version;
}

// Changing the mode does not wait for other connections by itself.
Result<void> use_wal(const Connection& connection) {
  Result<void> result;
  for (int attempt = 0; attempt < 200; ++attempt) {
    result = connection.execute("PRAGMA journal_mode = WAL");
    if (result.ok() || result.error().code != ErrorCode::kUnavailable) return result;
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  return result;
}

// What older programs kept in `extra`, in its columns.
Result<void> move_marks(const Connection& connection) {
  TESSERA_TRY(Statement read,
              connection.prepare("SELECT id, extra FROM records WHERE id > ? AND extra != '' AND "
                                 "format = (SELECT id FROM texts WHERE text = 'tessera') "
                                 "ORDER BY id LIMIT 1024"));
  TESSERA_TRY(Statement write,
              connection.prepare("UPDATE records SET extra = ?, cold = ?, evicted = ?, "
                                 "unchecked = ?, memory_s = ? WHERE id = ?"));
  for (std::int64_t last = 0;;) {
    std::vector<Record> batch;
    read.bind(0, last);
    for (;;) {
      TESSERA_TRY(const bool row, read.step());
      if (!row) break;
      Record& r = batch.emplace_back();
      r.id = read.integer(0);
      r.extra = read.text(1);
    }
    if (batch.empty()) return {};
    last = batch.back().id;
    for (Record& r : batch) {
      take_marks(&r);
      write.bind(0, r.extra);
      write.bind(1, std::int64_t{r.cold});
      write.bind(2, r.evicted_bytes);
      write.bind(3, std::int64_t{r.unchecked});
      write.bind(4, r.memory_s);
      write.bind(5, r.id);
      TESSERA_DO(write.finish());
    }
  }
}

// Those who make the tables at the same time wait for each other.
constexpr const char* kServerLock = "SELECT pg_advisory_xact_lock(8387236824920056683)";

Result<void> make_server_schema(const Connection& connection) {
  TESSERA_DO(connection.execute(kServerLock));
  TESSERA_TRY(
      const std::int64_t there,
      connection.query_integer("SELECT count(*) FROM pg_namespace WHERE nspname = 'tessera'"));
  return there > 0 ? Result<void>() : connection.execute("CREATE SCHEMA tessera");
}

Result<void> bring_up_to_date(const Connection& connection) {
  if (connection.is_server()) TESSERA_DO(make_server_schema(connection));
  TESSERA_TRY(const std::int64_t now, inspect(connection));  // another process may have been faster
  if (now == kEmpty) {
    TESSERA_DO(connection.define(kTables));
    TESSERA_DO(connection.define(connection.is_server() ? kServerOnly : kFileOnly));
    TESSERA_DO(keep_content_version(connection));
  }
  if (now < 2) TESSERA_DO(connection.define(kSecondVersion));
  if (now < 3) {
    TESSERA_DO(connection.define(kThirdVersion));
    TESSERA_DO(move_marks(connection));
  }
  return {};
}

}  // namespace

Result<void> prepare_schema(const Connection& connection) {
  TESSERA_TRY(const std::int64_t found, inspect(connection));
  if (!connection.is_server()) {
    // FULL: what append() returned for survives a loss of power, not only of the process.
    TESSERA_DO(use_wal(connection));
    TESSERA_DO(connection.execute("PRAGMA synchronous = FULL"));
  }
  if (found == kSchemaVersion) return {};
  return connection.transact([&] { return bring_up_to_date(connection); });
}

Result<std::int64_t> check_schema(const Connection& connection) {
  TESSERA_TRY(const std::int64_t found, inspect(connection));
  if (found != kEmpty) return found;
  return make_error(ErrorCode::kIo, "{}: is empty, not a database of records", connection.name());
}

Result<std::int64_t> content_version(const Connection& connection) {
  return connection.query_integer(connection.is_server() ? "SELECT version FROM content_version"
                                                         : "PRAGMA user_version");
}

Result<void> keep_content_version(const Connection& connection, std::int64_t version) {
  return connection.execute(connection.is_server()
                                ? fmt::format("UPDATE content_version SET version = {}", version)
                                : fmt::format("PRAGMA user_version = {}", version));
}

}  // namespace tessera::record
