#include "tessera/trials/fleet/queue.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "tessera/trials/fleet/queue_tables.h"

namespace tessera::fleet {
namespace {

using record::Statement;

Error too_many(std::size_t count) {
  return make_error(ErrorCode::kInvalidArgument, "{} trials at once; 1 to {} are possible", count,
                    kMostClaimed);
}

// "row, row, row": `count` of them.
std::string repeated(const std::string& row, std::size_t count) {
  return fmt::format("{}", fmt::join(std::vector<std::string>(count, row), ", "));
}

std::string trials_of(const std::vector<Claim>& claims) {
  std::vector<std::int64_t> ids;
  ids.reserve(claims.size());
  for (const Claim& c : claims) ids.push_back(c.trial);
  return fmt::format("{}", fmt::join(ids, ","));
}

}  // namespace

const char* Queue::now() const { return now_sql(*connection_); }

Result<Queue> Queue::open(const std::string& place, std::chrono::milliseconds patience) {
  TESSERA_TRY(record::Connection connection,
              record::Connection::open(place, record::OpenMode::kCreate, patience));
  TESSERA_DO(prepare_queue(connection));
  return Queue(std::move(connection));
}

Result<std::vector<std::int64_t>> Queue::enqueue(std::int64_t session,
                                                 const std::vector<NewTrial>& trials,
                                                 double weight) {
  if (weight <= 0) {
    return make_error(ErrorCode::kInvalidArgument, "the weight of a session cannot be {}", weight);
  }
  std::vector<std::int64_t> ids;
  const auto add_all = [&]() -> Result<void> {
    ids.clear();
    // Behind the session's own, but not before what others wait for already or, where nothing
    // waits, what they had: a session that begins late has no turns to make up for.
    TESSERA_TRY(
        Statement last,
        connection_->prepare(
            "SELECT max(turn) FROM (SELECT max(turn) AS turn FROM trials WHERE session = ? UNION "
            "ALL SELECT coalesce((SELECT min(turn) FROM trials WHERE state = 0 AND turn > 0), "
            "(SELECT max(turn) FROM trials WHERE state = 1), (SELECT max(turn) FROM trials WHERE "
            "session IN (SELECT id FROM tunings WHERE state = 0)))) known"));
    last.bind(0, session);
    TESSERA_TRY([[maybe_unused]] const bool row, last.step());
    double turn = last.real(0);
    last.reset();
    const std::size_t most = kMostClaimed;
    for (std::size_t begin = 0; begin < trials.size(); begin += most) {
      const std::size_t count = std::min(most, trials.size() - begin);
      TESSERA_TRY(Statement add,
                  connection_->prepare(fmt::format(
                      "INSERT INTO trials (session, turn, state, attempt, agent, leased_until, "
                      "reported, reporter, taken, payload, result) VALUES {} RETURNING id",
                      repeated("(?, ?, 0, 0, ?, 0, 0, 0, 0, ?, '')", count))));
      for (std::size_t i = 0; i < count; ++i) {
        const NewTrial& trial = trials[begin + i];
        const int at = 4 * static_cast<int>(i);
        add.bind(at, session);
        add.bind(at + 1, trial.urgent ? 0 : turn += 1 / weight);
        add.bind(at + 2, -trial.not_by);
        add.bind_bytes(at + 3, trial.payload);
      }
      TESSERA_TRY(const std::vector<std::int64_t> added, integers_of(add));
      ids.insert(ids.end(), added.begin(), added.end());
    }
    return connection_->is_server() ? connection_->execute(std::string("NOTIFY ") + kWorkChannel)
                                    : Result<void>();
  };
  const Result<void> done = connection_->transact(add_all, [&]() -> Result<bool> {
    if (ids.empty()) return true;
    TESSERA_TRY(
        const std::int64_t there,
        connection_->query_integer(fmt::format(
            "SELECT count(*) FROM trials WHERE id = {} AND session = {}", ids.back(), session)));
    return there > 0;
  });
  if (!done.ok()) return done.error();
  std::ranges::sort(ids);  // they were given in order
  return ids;
}

Result<void> Queue::end_attempts(const std::vector<Claim>& claims) {
  return connection_->execute(
      fmt::format("UPDATE attempts SET ended = {}, outcome = {} WHERE outcome = 0 AND trial IN "
                  "({})",
                  now(), static_cast<int>(kExpired), trials_of(claims)));
}

Result<void> Queue::note_attempts(std::int64_t agent, const std::vector<Claim>& claims) {
  if (claims.empty()) return {};
  return connection_->execute(
      fmt::format("INSERT INTO attempts (trial, attempt, agent, claimed, ended, outcome) SELECT id,"
                  " attempt, {}, {}, 0, 0 FROM trials WHERE id IN ({})",
                  agent, now(), trials_of(claims)));
}

// Out of `claims` what so many agents went silent with. What they gave back does not count.
Result<std::vector<Claim>> Queue::take_hopeless(std::vector<Claim>* claims) {
  std::vector<Claim> often;
  std::ranges::copy_if(*claims, std::back_inserter(often),
                       [](const Claim& c) { return c.attempt > kMostAttempts; });
  if (often.empty()) return often;
  TESSERA_TRY(Statement expired,
              connection_->prepare(fmt::format(
                  "SELECT trial FROM attempts WHERE outcome = {} AND trial IN ({}) GROUP BY trial "
                  "HAVING count(*) >= {}",
                  static_cast<int>(kExpired), trials_of(often), kMostAttempts)));
  TESSERA_TRY(const std::vector<std::int64_t> hopeless, integers_of(expired));
  const auto is_hopeless = [&](const Claim& c) {
    return std::ranges::find(hopeless, c.trial) != hopeless.end();
  };
  std::erase_if(often, [&](const Claim& c) { return !is_hopeless(c); });
  std::erase_if(*claims, is_hopeless);
  return often;
}

// Trials that no agent lived to report have a result, too: that there is none.
Result<void> Queue::give_up(const std::vector<Claim>& claims) {
  if (claims.empty()) return {};
  return connection_->execute(fmt::format("UPDATE trials SET state = {} WHERE id IN ({})",
                                          static_cast<int>(kGivenUp), trials_of(claims)));
}

Result<std::vector<Claim>> Queue::claim(std::int64_t agent, int limit,
                                        std::chrono::milliseconds lease) {
  if (limit < 1 || limit > kMostClaimed) return too_many(static_cast<std::size_t>(limit));
  std::vector<Claim> claims;
  // An array on a server: of a join it would sort all that waits.
  const bool server = connection_->is_server();
  const std::string pick = fmt::format(
      "WITH picked AS MATERIALIZED (SELECT id FROM trials WHERE state < 2 AND (state = 0 OR "
      "leased_until < {0}) AND session {1}(SELECT tuning FROM helpers WHERE agent = ? AND refused "
      "= ''){2} AND agent <> ? ORDER BY turn, id LIMIT ?{3}) "
      "UPDATE trials SET state = 1, attempt = attempt + 1, agent = ?, leased_until = {0} + ? "
      "WHERE id IN (SELECT id FROM picked) RETURNING id, attempt, session, payload",
      now(), server ? "= ANY(ARRAY" : "IN ", server ? ")" : "",
      server ? " FOR UPDATE SKIP LOCKED" : "");
  const Result<void> done = connection_->transact([&]() -> Result<void> {
    claims.clear();
    TESSERA_TRY(Statement update, connection_->prepare(pick));
    update.bind(0, agent);
    update.bind(1, -agent);
    update.bind(2, std::int64_t{limit});
    update.bind(3, agent);
    update.bind(4, static_cast<std::int64_t>(lease.count()));
    while (true) {
      TESSERA_TRY(const bool row, update.step());
      if (!row) break;
      claims.push_back({update.integer(0), update.integer(1), update.integer(2), update.bytes(3)});
    }
    const bool again = std::ranges::any_of(claims, [](const Claim& c) { return c.attempt > 1; });
    if (again) TESSERA_DO(end_attempts(claims));
    TESSERA_TRY(const std::vector<Claim> hopeless, take_hopeless(&claims));
    TESSERA_DO(note_attempts(agent, claims));
    return give_up(hopeless);
  });
  if (!done.ok()) return done.error();
  std::ranges::sort(claims, {}, &Claim::trial);
  return claims;
}

Result<std::vector<std::int64_t>> Queue::renew(std::int64_t agent,
                                               std::chrono::milliseconds lease) {
  std::vector<std::int64_t> held;
  const Result<void> done = connection_->repeat([&]() -> Result<void> {
    TESSERA_TRY(Statement renew,
                connection_->prepare(fmt::format(
                    "UPDATE trials SET leased_until = {0} + ? WHERE agent = ? AND state = 1 AND "
                    "EXISTS (SELECT 1 FROM attempts a WHERE a.trial = trials.id AND a.attempt = "
                    "trials.attempt AND a.claimed > {0} - {1}) RETURNING id",
                    now(), kLongestAttempt.count())));
    renew.bind(0, static_cast<std::int64_t>(lease.count()));
    renew.bind(1, agent);
    TESSERA_TRY(held, integers_of(renew));
    return {};
  });
  if (!done.ok()) return done.error();
  std::ranges::sort(held);
  return held;
}

// Outside of a transaction, since it may run twice: one round trip and one commit for all. No
// NOTIFY here: commits that notify wait for each other, and these are the many.
Result<std::vector<std::int64_t>> Queue::report(std::int64_t agent,
                                                const std::vector<TrialResult>& results) {
  if (results.empty() || results.size() > kMostClaimed) return too_many(results.size());
  const char* row = connection_->is_server()
                        ? "(CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS BYTEA))"
                        : "(?, ?, ?)";
  std::vector<std::int64_t> accepted;
  const Result<void> done = connection_->repeat([&]() -> Result<void> {
    // The check of the lease: the latest attempt, held by this agent.
    TESSERA_TRY(
        Statement release,
        connection_->prepare(fmt::format(
            "UPDATE trials SET state = 2, reported = v.column2, reporter = agent, result = "
            "CASE WHEN state = 1 THEN v.column3 ELSE result END FROM (VALUES {}) AS v WHERE "
            "id = v.column1 AND attempt = v.column2 AND agent = ? AND (state = 1 OR (state "
            "= 2 AND reported = v.column2)) RETURNING id",
            repeated(row, results.size()))));
    int at = 0;
    for (const TrialResult& r : results) {
      release.bind(at++, r.trial);
      release.bind(at++, r.attempt);
      release.bind_bytes(at++, r.payload);
    }
    release.bind(at, agent);
    TESSERA_TRY(accepted, integers_of(release));
    return {};
  });
  if (!done.ok()) return done.error();
  std::ranges::sort(accepted);
  return accepted;
}

Result<std::int64_t> Queue::open_to_all(std::int64_t session) {
  TESSERA_TRY(Statement open, connection_->prepare("UPDATE trials SET agent = 0 WHERE session = ? "
                                                   "AND state = 0 AND agent < 0 RETURNING id"));
  open.bind(0, session);
  TESSERA_TRY(const std::vector<std::int64_t> ids, integers_of(open));
  return std::ssize(ids);
}

Result<std::int64_t> Queue::release(std::int64_t agent, const std::string& which, int outcome) {
  std::int64_t count = 0;
  const Result<void> done = connection_->transact([&]() -> Result<void> {
    TESSERA_TRY(Statement back, connection_->prepare("UPDATE trials SET state = 0, leased_until = 0"
                                                     " WHERE agent = ? AND state = 1" +
                                                     which + " RETURNING id"));
    back.bind(0, agent);
    TESSERA_TRY(const std::vector<std::int64_t> ids, integers_of(back));
    count = static_cast<std::int64_t>(ids.size());
    if (ids.empty()) return {};
    return connection_->execute(
        fmt::format("UPDATE attempts SET ended = {}, outcome = {} WHERE outcome = 0 AND trial IN "
                    "({})",
                    now(), outcome, fmt::join(ids, ",")));
  });
  if (!done.ok()) return done.error();
  return count;
}

Result<std::int64_t> Queue::give_back(std::int64_t agent, const std::vector<std::int64_t>& kept) {
  const std::string others =
      kept.empty() ? "" : fmt::format(" AND id NOT IN ({})", fmt::join(kept, ","));
  return release(agent, others, kGivenBack);
}

Result<std::int64_t> Queue::expire(std::int64_t agent, const std::vector<std::int64_t>& trials) {
  if (trials.empty()) return std::int64_t{0};
  return release(agent, fmt::format(" AND id IN ({})", fmt::join(trials, ",")), kExpired);
}

Result<std::vector<TrialResult>> Queue::results(std::int64_t session) {
  TESSERA_TRY(Statement select,
              connection_->prepare("SELECT id, reported, result, reporter FROM trials WHERE session"
                                   " = ? AND taken = 0 AND state IN (2, 3) ORDER BY id"));
  select.bind(0, session);
  std::vector<TrialResult> out;
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return out;
    out.push_back({select.integer(0), select.integer(1), select.bytes(2), select.integer(3)});
  }
}

Result<void> Queue::take(std::int64_t session, const std::vector<std::int64_t>& trials) {
  if (trials.empty()) return {};
  return connection_->execute(
      fmt::format("UPDATE trials SET taken = 1 WHERE session = {} AND id IN ({})", session,
                  fmt::join(trials, ",")));
}

Result<std::int64_t> Queue::cancel(std::int64_t session) {
  std::int64_t count = 0;
  const Result<void> done = connection_->transact([&]() -> Result<void> {
    // Zeros are of those that nobody ever had, of which there may be millions.
    TESSERA_TRY(Statement cancel,
                connection_->prepare(fmt::format(
                    "UPDATE trials SET state = {}, taken = 1 WHERE session = ? AND state < 2 "
                    "RETURNING CASE WHEN attempt > 0 THEN id ELSE 0 END",
                    static_cast<int>(kCancelled))));
    cancel.bind(0, session);
    TESSERA_TRY(std::vector<std::int64_t> ids, integers_of(cancel));
    count = std::ssize(ids);
    std::erase(ids, 0);
    if (ids.empty()) return {};
    return connection_->execute(
        fmt::format("UPDATE attempts SET ended = {}, outcome = {} WHERE outcome = 0 AND trial IN "
                    "({})",
                    now(), static_cast<int>(kGivenBack), fmt::join(ids, ",")));
  });
  if (!done.ok()) return done.error();
  return count;
}

Result<QueueCounts> Queue::counts_of(std::int64_t session) const {
  QueueCounts out;
  std::int64_t* const parts[] = {&out.queued, &out.claimed, &out.done, &out.given_up,
                                 &out.cancelled};
  const std::string where = session > 0 ? fmt::format(" WHERE session = {}", session) : "";
  const Result<void> done = connection_->repeat([&]() -> Result<void> {
    TESSERA_TRY(Statement count, connection_->prepare("SELECT state, count(*) FROM trials" + where +
                                                      " GROUP BY state"));
    while (true) {
      TESSERA_TRY(const bool row, count.step());
      if (!row) return {};
      const std::int64_t state = count.integer(0);
      if (state >= 0 && state < std::ssize(parts)) *parts[state] = count.integer(1);
    }
  });
  if (!done.ok()) return done.error();
  return out;
}

Result<QueueCounts> Queue::counts() const {
  TESSERA_TRY(QueueCounts out, counts_of(0));
  TESSERA_TRY(out.taken_over,
              connection_->query_integer(fmt::format(
                  "SELECT count(*) FROM attempts WHERE outcome = {}", static_cast<int>(kExpired))));
  return out;
}

void Queue::wait(std::chrono::milliseconds timeout) const {
  connection_->wait_for(kWorkChannel, timeout);
}

}  // namespace tessera::fleet
