#include "tessera/trials/fleet/queue.h"

#include <algorithm>

#include "tessera/trials/fleet/queue_tables.h"

namespace tessera::fleet {
namespace {

using record::Statement;

constexpr const char* kChannel = "tessera_trials";

Result<std::vector<std::int64_t>> integers_of(Statement& statement) {
  std::vector<std::int64_t> out;
  while (true) {
    TESSERA_TRY(const bool row, statement.step());
    if (!row) return out;
    out.push_back(statement.integer(0));
  }
}

Error too_many(std::size_t count) {
  return make_error(ErrorCode::kInvalidArgument, "{} trials at once; 1 to {} are possible", count,
                    kMostClaimed);
}

}  // namespace

const char* Queue::now() const {
  return connection_.is_server() ? "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
                                 : "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
}

Result<Queue> Queue::open(const std::string& place, std::chrono::milliseconds patience) {
  TESSERA_TRY(record::Connection connection,
              record::Connection::open(place, record::OpenMode::kCreate, patience));
  TESSERA_DO(prepare_queue(connection));
  return Queue(std::move(connection));
}

Result<std::int64_t> Queue::add_agent(const std::string& name, const std::string& machine) {
  std::int64_t id = 0;
  const Result<void> done = connection_.transact([&]() -> Result<void> {
    TESSERA_TRY(Statement add,
                connection_.prepare(fmt::format("INSERT INTO agents (name, machine, seen) VALUES "
                                                "(?, ?, {}) RETURNING id",
                                                now())));
    add.bind(0, name);
    add.bind(1, machine);
    TESSERA_TRY(const std::vector<std::int64_t> ids, integers_of(add));
    id = ids.at(0);
    return {};
  });
  if (!done.ok()) return done.error();
  return id;
}

Result<std::vector<std::int64_t>> Queue::enqueue(std::int64_t session,
                                                 const std::vector<NewTrial>& trials,
                                                 double weight) {
  if (weight <= 0) {
    return make_error(ErrorCode::kInvalidArgument, "the weight of a session cannot be {}", weight);
  }
  std::vector<std::int64_t> ids;
  const Result<void> done = connection_.transact([&]() -> Result<void> {
    ids.clear();
    // Behind the session's own, but not before what others wait for already: a session that begins
    // late has no turns to make up for.
    TESSERA_TRY(Statement last, connection_.prepare("SELECT max(turn) FROM (SELECT max(turn) AS "
                                                    "turn FROM trials WHERE session = ? UNION ALL "
                                                    "SELECT min(turn) FROM trials WHERE state = 0)"
                                                    " known"));
    last.bind(0, session);
    TESSERA_TRY([[maybe_unused]] const bool row, last.step());
    double turn = last.real(0);
    last.reset();
    TESSERA_TRY(Statement add,
                connection_.prepare("INSERT INTO trials (session, machine, turn, state, attempt, "
                                    "agent, leased_until, payload) VALUES (?, ?, ?, 0, 0, 0, 0, ?)"
                                    " RETURNING id"));
    for (const NewTrial& trial : trials) {
      add.bind(0, session);
      add.bind(1, trial.machine);
      add.bind(2, turn += 1 / weight);
      add.bind_bytes(3, trial.payload);
      TESSERA_TRY(const std::vector<std::int64_t> id, integers_of(add));
      ids.push_back(id.at(0));
    }
    return connection_.is_server() ? connection_.execute(std::string("NOTIFY ") + kChannel)
                                   : Result<void>();
  });
  if (!done.ok()) return done.error();
  return ids;
}

// Trials that no agent lived to report have a result, too: that there is none.
Result<void> Queue::give_up_lost() {
  TESSERA_TRY(Statement lost,
              connection_.prepare(fmt::format(
                  "UPDATE trials SET state = {} WHERE state = 1 AND attempt >= {} AND leased_until "
                  "< {} RETURNING id",
                  static_cast<int>(kGivenUp), kMostAttempts, now())));
  TESSERA_TRY(const std::vector<std::int64_t> ids, integers_of(lost));
  for (const std::int64_t id : ids) {
    TESSERA_DO(connection_.execute(
        fmt::format("UPDATE attempts SET ended = {}, outcome = {} WHERE trial = {} AND outcome = 0",
                    now(), static_cast<int>(kExpired), id)));
    TESSERA_DO(connection_.execute(fmt::format(
        "INSERT INTO results (trial, session, attempt, agent, taken, payload) SELECT id, session, "
        "0, 0, 0, '' FROM trials WHERE id = {}",
        id)));
  }
  return {};
}

Result<std::vector<Claim>> Queue::claim(std::int64_t agent, const std::string& machine, int limit,
                                        std::chrono::milliseconds lease) {
  if (limit < 1 || limit > kMostClaimed) return too_many(static_cast<std::size_t>(limit));
  std::vector<Claim> claims;
  const std::string pick = fmt::format(
      "WITH picked AS MATERIALIZED (SELECT id FROM trials WHERE state < 2 AND (state = 0 OR "
      "leased_until < {0}) AND machine IN ('', ?) ORDER BY turn, id LIMIT ?{1}) "
      "UPDATE trials SET state = 1, attempt = attempt + 1, agent = ?, leased_until = {0} + ? "
      "WHERE id IN (SELECT id FROM picked) RETURNING id, attempt, payload",
      now(), connection_.is_server() ? " FOR UPDATE SKIP LOCKED" : "");
  const Result<void> done = connection_.transact([&]() -> Result<void> {
    claims.clear();
    TESSERA_DO(give_up_lost());
    TESSERA_TRY(Statement update, connection_.prepare(pick));
    update.bind(0, machine);
    update.bind(1, std::int64_t{limit});
    update.bind(2, agent);
    update.bind(3, static_cast<std::int64_t>(lease.count()));
    while (true) {
      TESSERA_TRY(const bool row, update.step());
      if (!row) break;
      claims.push_back({update.integer(0), update.integer(1), update.bytes(2)});
    }
    for (const Claim& c : claims) {
      if (c.attempt > 1) {
        TESSERA_DO(connection_.execute(fmt::format(
            "UPDATE attempts SET ended = {}, outcome = {} WHERE trial = {} AND outcome = 0", now(),
            static_cast<int>(kExpired), c.trial)));
      }
      TESSERA_TRY(Statement begun,
                  connection_.prepare(fmt::format("INSERT INTO attempts (trial, attempt, agent, "
                                                  "claimed, ended, outcome) VALUES (?, ?, ?, {}, "
                                                  "0, 0)",
                                                  now())));
      begun.bind(0, c.trial);
      begun.bind(1, c.attempt);
      begun.bind(2, agent);
      TESSERA_DO(begun.finish());
    }
    return {};
  });
  if (!done.ok()) return done.error();
  std::ranges::sort(claims, {}, &Claim::trial);
  return claims;
}

Result<std::vector<std::int64_t>> Queue::renew(std::int64_t agent,
                                               std::chrono::milliseconds lease) {
  std::vector<std::int64_t> held;
  const Result<void> done = connection_.transact([&]() -> Result<void> {
    TESSERA_DO(connection_.execute(
        fmt::format("UPDATE agents SET seen = {} WHERE id = {}", now(), agent)));
    TESSERA_TRY(Statement renew, connection_.prepare(fmt::format(
                                     "UPDATE trials SET leased_until = {} + ? WHERE agent = ? AND "
                                     "state = 1 RETURNING id",
                                     now())));
    renew.bind(0, static_cast<std::int64_t>(lease.count()));
    renew.bind(1, agent);
    TESSERA_TRY(held, integers_of(renew));
    return {};
  });
  if (!done.ok()) return done.error();
  std::ranges::sort(held);
  return held;
}

// No NOTIFY here: commits that notify wait for each other, and these are the many.
Result<std::vector<std::int64_t>> Queue::report(std::int64_t agent,
                                                const std::vector<TrialResult>& results) {
  if (results.empty() || results.size() > kMostClaimed) return too_many(results.size());
  std::vector<std::int64_t> accepted;
  const Result<void> done = connection_.transact([&]() -> Result<void> {
    accepted.clear();
    for (const TrialResult& r : results) {
      // The check of the lease: the latest attempt, held by this agent.
      TESSERA_TRY(
          Statement release,
          connection_.prepare("UPDATE trials SET state = 2 WHERE id = ? AND attempt = ? AND "
                              "agent = ? AND state = 1 RETURNING session"));
      release.bind(0, r.trial);
      release.bind(1, r.attempt);
      release.bind(2, agent);
      TESSERA_TRY(const std::vector<std::int64_t> session, integers_of(release));
      if (session.empty()) continue;
      TESSERA_TRY(Statement end,
                  connection_.prepare(fmt::format("UPDATE attempts SET ended = {}, outcome = 1 "
                                                  "WHERE trial = ? AND attempt = ?",
                                                  now())));
      end.bind(0, r.trial);
      end.bind(1, r.attempt);
      TESSERA_DO(end.finish());
      TESSERA_TRY(Statement add,
                  connection_.prepare("INSERT INTO results (trial, session, attempt, agent, taken, "
                                      "payload) VALUES (?, ?, ?, ?, 0, ?)"));
      add.bind(0, r.trial);
      add.bind(1, session[0]);
      add.bind(2, r.attempt);
      add.bind(3, agent);
      add.bind_bytes(4, r.payload);
      TESSERA_DO(add.finish());
      accepted.push_back(r.trial);
    }
    return {};
  });
  if (!done.ok()) return done.error();
  return accepted;
}

Result<std::int64_t> Queue::give_back(std::int64_t agent) {
  std::int64_t count = 0;
  const Result<void> done = connection_.transact([&]() -> Result<void> {
    TESSERA_TRY(Statement back, connection_.prepare("UPDATE trials SET state = 0, leased_until = 0 "
                                                    "WHERE agent = ? AND state = 1 RETURNING id"));
    back.bind(0, agent);
    TESSERA_TRY(const std::vector<std::int64_t> ids, integers_of(back));
    for (const std::int64_t id : ids) {
      TESSERA_DO(connection_.execute(fmt::format(
          "UPDATE attempts SET ended = {}, outcome = {} WHERE trial = {} AND outcome = 0", now(),
          static_cast<int>(kGivenBack), id)));
    }
    count = static_cast<std::int64_t>(ids.size());
    return {};
  });
  if (!done.ok()) return done.error();
  return count;
}

Result<std::vector<TrialResult>> Queue::results(std::int64_t session) {
  TESSERA_TRY(Statement select,
              connection_.prepare("SELECT trial, attempt, payload FROM results WHERE session = ? "
                                  "AND taken = 0 ORDER BY trial"));
  select.bind(0, session);
  std::vector<TrialResult> out;
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return out;
    out.push_back({select.integer(0), select.integer(1), select.bytes(2)});
  }
}

Result<void> Queue::take(std::int64_t session, const std::vector<std::int64_t>& trials) {
  return connection_.transact([&]() -> Result<void> {
    TESSERA_TRY(Statement take, connection_.prepare("UPDATE results SET taken = 1 WHERE session = ?"
                                                    " AND trial = ?"));
    for (const std::int64_t trial : trials) {
      take.bind(0, session);
      take.bind(1, trial);
      TESSERA_DO(take.finish());
    }
    return {};
  });
}

Result<std::int64_t> Queue::cancel(std::int64_t session) {
  std::int64_t count = 0;
  const Result<void> done = connection_.transact([&]() -> Result<void> {
    TESSERA_TRY(Statement cancel, connection_.prepare(fmt::format(
                                      "UPDATE trials SET state = {} WHERE session = ? AND state = 0"
                                      " RETURNING id",
                                      static_cast<int>(kCancelled))));
    cancel.bind(0, session);
    TESSERA_TRY(const std::vector<std::int64_t> ids, integers_of(cancel));
    count = static_cast<std::int64_t>(ids.size());
    return {};
  });
  if (!done.ok()) return done.error();
  return count;
}

Result<QueueCounts> Queue::counts() const {
  QueueCounts out;
  const auto count = [&](const char* table, const char* column, int value) {
    return connection_.query_integer(
        fmt::format("SELECT count(*) FROM {} WHERE {} = {}", table, column, value));
  };
  TESSERA_TRY(out.queued, count("trials", "state", kQueued));
  TESSERA_TRY(out.claimed, count("trials", "state", kClaimed));
  TESSERA_TRY(out.done, count("trials", "state", kDone));
  TESSERA_TRY(out.given_up, count("trials", "state", kGivenUp));
  TESSERA_TRY(out.taken_over, count("attempts", "outcome", kExpired));
  return out;
}

void Queue::wait(std::chrono::milliseconds timeout) const {
  connection_.wait_for(kChannel, timeout);
}

}  // namespace tessera::fleet
