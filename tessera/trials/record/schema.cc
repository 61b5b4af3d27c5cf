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
INSERT INTO texts VALUES (1, 'ok'), (2, 'censored');
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
CREATE INDEX records_by_task ON records (task);
CREATE INDEX records_by_session ON records (session);
CREATE INDEX records_by_time ON records (task, seconds) WHERE outcome = 1;
INSERT INTO schema_version VALUES (1);
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
  TESSERA_TRY(const std::int64_t tables,
              connection.query_integer("SELECT count(*) FROM sqlite_master"));
  if (tables == 0) return kEmpty;
  TESSERA_TRY(const std::int64_t ours,
              connection.query_integer("SELECT count(*) FROM sqlite_master WHERE type = 'table' "
                                       "AND name IN ('schema_version', 'records', 'texts')"));
  if (ours != 3) {
    return make_error(ErrorCode::kIo, "{}: is a database of another program", connection.path());
  }
  TESSERA_TRY(const std::int64_t version,
              connection.query_integer("SELECT version FROM schema_version"));
  if (version > kSchemaVersion) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: a newer version of Tessera wrote it (tables of version {}, known: {})",
                      connection.path(), version, kSchemaVersion);
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
      TESSERA_TRY(const bool row, write.step());
      if (row) write.reset();
    }
  }
}

}  // namespace

Result<void> prepare_schema(const Connection& connection) {
  TESSERA_TRY(const std::int64_t found, inspect(connection));
  // FULL: what append() returned for survives a loss of power, not only of the process.
  TESSERA_DO(use_wal(connection));
  TESSERA_DO(connection.execute("PRAGMA synchronous = FULL"));
  if (found == kSchemaVersion) return {};
  TESSERA_TRY(Transaction transaction, Transaction::begin(connection));
  TESSERA_TRY(const std::int64_t now, inspect(connection));  // another process may have been faster
  if (now == kEmpty) {
    TESSERA_DO(connection.execute(kTables));
    TESSERA_DO(
        connection.execute(fmt::format("PRAGMA user_version = {}", kContentVersion).c_str()));
  }
  if (now < 2) TESSERA_DO(connection.execute(kSecondVersion));
  if (now < 3) {
    TESSERA_DO(connection.execute(kThirdVersion));
    TESSERA_DO(move_marks(connection));
  }
  return transaction.commit();
}

Result<std::int64_t> check_schema(const Connection& connection) {
  TESSERA_TRY(const std::int64_t found, inspect(connection));
  if (found != kEmpty) return found;
  return make_error(ErrorCode::kIo, "{}: is empty, not a database of records", connection.path());
}

}  // namespace tessera::record
