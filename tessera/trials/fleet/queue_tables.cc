#include "tessera/trials/fleet/queue_tables.h"

namespace tessera::fleet {
namespace {

// Times are milliseconds of the server's clock. A trial keeps its result: there is at most one.
// `turn` orders the sessions among each other (Queue::enqueue), `reported` is the attempt that the
// result came from. `agent` is who took the trial last, below 0 who must not be the first to.
// `helpers`: which agents look at which tuning, and why one will not work for it.
constexpr const char* kTables = R"(
CREATE TABLE queue_version (version INTEGER NOT NULL);
CREATE TABLE agents (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, target TEXT NOT NULL, threads INTEGER NOT NULL,
  labels TEXT NOT NULL, version TEXT NOT NULL, calibration REAL NOT NULL, seen INTEGER NOT NULL,
  state INTEGER NOT NULL, done INTEGER NOT NULL, failed INTEGER NOT NULL);
CREATE TABLE tunings (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, target TEXT NOT NULL, threads INTEGER NOT NULL,
  labels TEXT NOT NULL, version TEXT NOT NULL, most_agents INTEGER NOT NULL,
  seen INTEGER NOT NULL, state INTEGER NOT NULL, work BLOB NOT NULL);
CREATE TABLE helpers (
  tuning INTEGER NOT NULL, agent INTEGER NOT NULL, refused TEXT NOT NULL,
  PRIMARY KEY (tuning, agent));
CREATE INDEX helpers_of_agent ON helpers (agent);
CREATE TABLE trials (
  id INTEGER PRIMARY KEY, session INTEGER NOT NULL, turn REAL NOT NULL, state INTEGER NOT NULL,
  attempt INTEGER NOT NULL, agent INTEGER NOT NULL, leased_until INTEGER NOT NULL,
  reported INTEGER NOT NULL, reporter INTEGER NOT NULL, taken INTEGER NOT NULL,
  payload BLOB NOT NULL, result BLOB NOT NULL);
CREATE INDEX trials_open ON trials (turn, id) WHERE state < 2;
CREATE INDEX trials_of_session ON trials (session, state, turn);
CREATE INDEX trials_of_agent ON trials (agent) WHERE state = 1;
CREATE INDEX trials_new ON trials (session, id) WHERE taken = 0;
CREATE TABLE attempts (
  trial INTEGER NOT NULL, attempt INTEGER NOT NULL, agent INTEGER NOT NULL,
  claimed INTEGER NOT NULL, ended INTEGER NOT NULL, outcome INTEGER NOT NULL,
  PRIMARY KEY (trial, attempt));
INSERT INTO queue_version VALUES (2);
)";
static_assert(kQueueVersion == 2);

// Of version 1, which no command used.
constexpr const char* kDropOld =
    "DROP TABLE queue_version; DROP TABLE agents; DROP TABLE trials; DROP TABLE attempts; DROP "
    "TABLE results";

// The version of what is there; 0: nothing is.
Result<std::int64_t> version_there(const record::Connection& connection) {
  TESSERA_TRY(const bool there, connection.has_table("queue_version"));
  if (!there) return std::int64_t{0};
  TESSERA_TRY(const std::int64_t version,
              connection.query_integer("SELECT version FROM queue_version"));
  if (version <= kQueueVersion) return version;
  return make_error(ErrorCode::kUnsupported,
                    "{}: a newer version of Tessera made its queue (version {}, known: {}); update "
                    "Tessera on this machine",
                    connection.name(), version, kQueueVersion);
}

}  // namespace

Result<void> prepare_queue(const record::Connection& connection) {
  TESSERA_TRY(const std::int64_t version, version_there(connection));
  if (version == kQueueVersion) return {};
  return connection.transact([&]() -> Result<void> {
    // Those who make them at the same time wait for each other.
    if (connection.is_server()) {
      TESSERA_DO(connection.execute("SELECT pg_advisory_xact_lock(8387236824920056684)"));
    }
    TESSERA_TRY(const std::int64_t now, version_there(connection));
    if (now == kQueueVersion) return {};
    if (now > 0) TESSERA_DO(connection.execute(kDropOld));
    return connection.define(kTables);
  });
}

const char* now_sql(const record::Connection& connection) {
  return connection.is_server() ? "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
                                : "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
}

Result<std::vector<std::int64_t>> integers_of(record::Statement& statement) {
  std::vector<std::int64_t> out;
  while (true) {
    TESSERA_TRY(const bool row, statement.step());
    if (!row) return out;
    out.push_back(statement.integer(0));
  }
}

}  // namespace tessera::fleet
