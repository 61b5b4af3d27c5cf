#include "tessera/trials/fleet/queue_tables.h"

namespace tessera::fleet {
namespace {

// Times are milliseconds of the server's clock. A result is there once for each trial: its key
// refuses a second one. `turn` orders the sessions among each other (Queue::enqueue).
constexpr const char* kTables = R"(
CREATE TABLE queue_version (version INTEGER NOT NULL);
CREATE TABLE agents (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, machine TEXT NOT NULL, seen INTEGER NOT NULL);
CREATE TABLE trials (
  id INTEGER PRIMARY KEY, session INTEGER NOT NULL, machine TEXT NOT NULL, turn REAL NOT NULL,
  state INTEGER NOT NULL, attempt INTEGER NOT NULL, agent INTEGER NOT NULL,
  leased_until INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE INDEX trials_open ON trials (turn, id) WHERE state < 2;
CREATE INDEX trials_of_session ON trials (session, state, turn);
CREATE INDEX trials_of_agent ON trials (agent) WHERE state = 1;
CREATE TABLE attempts (
  trial INTEGER NOT NULL, attempt INTEGER NOT NULL, agent INTEGER NOT NULL,
  claimed INTEGER NOT NULL, ended INTEGER NOT NULL, outcome INTEGER NOT NULL,
  PRIMARY KEY (trial, attempt));
CREATE TABLE results (
  trial INTEGER NOT NULL, session INTEGER NOT NULL, attempt INTEGER NOT NULL,
  agent INTEGER NOT NULL, taken INTEGER NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (trial));
CREATE INDEX results_new ON results (session) WHERE taken = 0;
INSERT INTO queue_version VALUES (1);
)";
static_assert(kQueueVersion == 1);

Result<bool> is_there(const record::Connection& connection) {
  TESSERA_TRY(const bool there, connection.has_table("queue_version"));
  if (!there) return false;
  TESSERA_TRY(const std::int64_t version,
              connection.query_integer("SELECT version FROM queue_version"));
  if (version <= kQueueVersion) return true;
  return make_error(ErrorCode::kUnsupported,
                    "{}: a newer version of Tessera made its queue (version {}, known: {}); update "
                    "Tessera on this machine",
                    connection.name(), version, kQueueVersion);
}

}  // namespace

Result<void> prepare_queue(const record::Connection& connection) {
  TESSERA_TRY(const bool there, is_there(connection));
  if (there) return {};
  return connection.transact([&]() -> Result<void> {
    // Those who make them at the same time wait for each other.
    if (connection.is_server()) {
      TESSERA_DO(connection.execute("SELECT pg_advisory_xact_lock(8387236824920056684)"));
    }
    TESSERA_TRY(const bool by_another, is_there(connection));
    return by_another ? Result<void>() : connection.define(kTables);
  });
}

}  // namespace tessera::fleet
