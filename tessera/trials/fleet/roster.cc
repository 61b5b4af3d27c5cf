#include "tessera/trials/fleet/roster.h"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

#include "tessera/trials/fleet/printable.h"
#include "tessera/trials/fleet/queue_tables.h"

namespace tessera::fleet {
namespace {

using record::Statement;

constexpr std::int64_t kForgottenMs = std::int64_t{24} * 3600 * 1000;
constexpr std::size_t kForgottenAtOnce = 16;  // tunings of one transaction
enum TuningState : int { kOpen = 0, kClosed = 1 };

Result<std::int64_t> only_integer(Statement& statement) {
  TESSERA_TRY(const std::vector<std::int64_t> all, integers_of(statement));
  return all.empty() ? std::int64_t{0} : all[0];
}

}  // namespace

const char* to_text(AgentState state) {
  switch (state) {
    case AgentState::kWorking:
      return "working";
    case AgentState::kDraining:
      return "draining";
    case AgentState::kGone:
      break;
  }
  return "gone";
}

const char* Roster::now() const { return now_sql(*connection_); }

Result<std::int64_t> Roster::add_agent(const AgentRow& agent) {
  std::int64_t id = 0;
  const Result<void> done = connection_->transact([&]() -> Result<void> {
    TESSERA_TRY(Statement add,
                connection_->prepare(fmt::format(
                    "INSERT INTO agents (name, target, threads, labels, version, calibration, seen,"
                    " state, done, failed) VALUES (?, ?, ?, ?, ?, ?, {}, 0, 0, 0) RETURNING id",
                    now())));
    add.bind(0, agent.name);
    add.bind(1, agent.target);
    add.bind(2, std::int64_t{agent.threads});
    add.bind(3, agent.labels);
    add.bind(4, agent.version);
    add.bind(5, agent.calibration_s);
    TESSERA_TRY(id, only_integer(add));
    return {};
  });
  if (!done.ok()) return done.error();
  return id;
}

Result<AgentState> Roster::seen(std::int64_t agent, std::int64_t done, std::int64_t failed) {
  TESSERA_TRY(Statement update,
              connection_->prepare(fmt::format("UPDATE agents SET seen = {}, done = ?, failed = ? "
                                               "WHERE id = ? RETURNING state",
                                               now())));
  update.bind(0, done);
  update.bind(1, failed);
  update.bind(2, agent);
  TESSERA_TRY(const std::vector<std::int64_t> state, integers_of(update));
  return state.empty() ? AgentState::kGone : static_cast<AgentState>(state[0]);
}

Result<void> Roster::remove_agent(std::int64_t agent) {
  return connection_->execute(fmt::format("UPDATE agents SET state = {} WHERE id = {}",
                                          static_cast<int>(AgentState::kGone), agent));
}

Result<std::int64_t> Roster::drain(const std::string& agent) {
  std::int64_t id = 0;
  const auto parsed = std::from_chars(agent.data(), agent.data() + agent.size(), id);
  if (parsed.ec != std::errc() || parsed.ptr != agent.data() + agent.size()) id = 0;
  TESSERA_TRY(Statement drain, connection_->prepare(fmt::format(
                                   "UPDATE agents SET state = 1 WHERE state < 2 AND seen > {} - {} "
                                   "AND (name = ? OR id = ?) RETURNING id",
                                   now(), kAgentGoneMs)));
  drain.bind(0, agent);
  drain.bind(1, id);
  TESSERA_TRY(const std::vector<std::int64_t> ids, integers_of(drain));
  return std::ssize(ids);
}

Result<std::vector<AgentRow>> Roster::agents() const {
  TESSERA_TRY(Statement select,
              connection_->prepare(fmt::format(
                  "SELECT id, name, target, threads, labels, version, calibration, {0} - seen, "
                  "done, failed, state, (SELECT count(*) FROM trials WHERE trials.agent = agents.id"
                  " AND trials.state = 1) FROM agents WHERE state < 2 AND seen > {0} - {1} ORDER BY"
                  " id",
                  now(), kAgentGoneMs)));
  std::vector<AgentRow> out;
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return out;
    AgentRow& a = out.emplace_back();
    a.id = select.integer(0);
    a.name = printable(select.text(1));
    a.target = printable(select.text(2));
    a.threads = static_cast<int>(select.integer(3));
    a.labels = printable(select.text(4));
    a.version = printable(select.text(5));
    a.calibration_s = select.real(6);
    a.seen_ms = select.integer(7);
    a.done = select.integer(8);
    a.failed = select.integer(9);
    a.state = static_cast<AgentState>(select.integer(10));
    a.claimed = select.integer(11);
  }
}

Result<std::int64_t> Roster::open_tuning(const TuningRow& tuning, const std::string& work) {
  std::int64_t id = 0;
  const Result<void> done = connection_->transact([&]() -> Result<void> {
    TESSERA_TRY(Statement add,
                connection_->prepare(fmt::format(
                    "INSERT INTO tunings (name, target, threads, labels, version, most_agents, "
                    "seen, state, work) VALUES (?, ?, ?, ?, ?, ?, {}, 0, ?) RETURNING id",
                    now())));
    add.bind(0, tuning.name);
    add.bind(1, tuning.target);
    add.bind(2, std::int64_t{tuning.threads});
    add.bind(3, tuning.labels);
    add.bind(4, tuning.version);
    add.bind(5, tuning.most_agents);
    add.bind_bytes(6, work);
    TESSERA_TRY(id, only_integer(add));
    return connection_->is_server() ? connection_->execute(std::string("NOTIFY ") + kWorkChannel)
                                    : Result<void>();
  });
  if (!done.ok()) return done.error();
  (void)forget_old();
  return id;
}

// `tunings`: SQL for their ids.
Result<void> Roster::forget(const std::string& tunings) const {
  return connection_->transact([&]() -> Result<void> {
    for (const std::string& where :
         {"attempts WHERE trial IN (SELECT id FROM trials WHERE session IN (" + tunings + "))",
          "trials WHERE session IN (" + tunings + ")", "helpers WHERE tuning IN (" + tunings + ")",
          "tunings WHERE id IN (" + tunings + ")"}) {
      TESSERA_DO(connection_->execute("DELETE FROM " + where));
    }
    return {};
  });
}

Result<std::int64_t> Roster::forget_old() {
  const std::string before = fmt::format("{} - {}", now(), kForgottenMs);
  TESSERA_TRY(Statement ended,
              connection_->prepare(fmt::format("SELECT id FROM tunings WHERE state = {} AND seen < "
                                               "{}",
                                               static_cast<int>(kClosed), before)));
  TESSERA_TRY(const std::vector<std::int64_t> tunings, integers_of(ended));
  for (std::size_t begin = 0; begin < tunings.size(); begin += kForgottenAtOnce) {
    const auto first = tunings.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = tunings.begin() + static_cast<std::ptrdiff_t>(
                                            std::min(begin + kForgottenAtOnce, tunings.size()));
    TESSERA_DO(forget(fmt::format("{}", fmt::join(first, last, ","))));
  }
  TESSERA_TRY(const std::int64_t agents,
              connection_->query_integer("SELECT count(*) FROM agents WHERE seen < " + before));
  if (agents > 0) TESSERA_DO(connection_->execute("DELETE FROM agents WHERE seen < " + before));
  return std::ssize(tunings);
}

Result<void> Roster::forget_tuning(std::int64_t tuning, Queue& queue) {
  TESSERA_DO(close_tuning(tuning, queue));
  return forget(fmt::format("{}", tuning));
}

Result<bool> Roster::tuning_seen(std::int64_t tuning) {
  TESSERA_TRY(Statement update,
              connection_->prepare(fmt::format(
                  "UPDATE tunings SET seen = {} WHERE id = ? AND state = {} RETURNING id", now(),
                  static_cast<int>(kOpen))));
  update.bind(0, tuning);
  TESSERA_TRY(const std::vector<std::int64_t> open, integers_of(update));
  return !open.empty();
}

Result<void> Roster::close_tuning(std::int64_t tuning, Queue& queue) {
  // What is left of a tuning that is closed nobody tidies away.
  TESSERA_TRY([[maybe_unused]] const std::int64_t cancelled, queue.cancel(tuning));
  return connection_->execute(fmt::format("UPDATE tunings SET state = {}, work = '' WHERE id = {}",
                                          static_cast<int>(kClosed), tuning));
}

Result<void> Roster::tidy(Queue& queue) {
  TESSERA_TRY(Statement gone,
              connection_->prepare(fmt::format("SELECT id FROM tunings WHERE state = 0 AND seen < "
                                               "{} - {}",
                                               now(), kTuningGoneMs)));
  TESSERA_TRY(const std::vector<std::int64_t> tunings, integers_of(gone));
  for (const std::int64_t tuning : tunings) {
    TESSERA_TRY([[maybe_unused]] const std::int64_t cancelled, queue.cancel(tuning));
    TESSERA_DO(connection_->execute(fmt::format("UPDATE tunings SET state = {} WHERE id = {}",
                                                static_cast<int>(kClosed), tuning)));
  }
  return {};
}

Result<std::vector<TuningRow>> Roster::tunings() const {
  TESSERA_TRY(Statement select,
              connection_->prepare(fmt::format(
                  "SELECT id, name, target, threads, labels, version, most_agents, {} - seen FROM "
                  "tunings WHERE state = {} ORDER BY id",
                  now(), static_cast<int>(kOpen))));
  std::vector<TuningRow> out;
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return out;
    TuningRow& t = out.emplace_back();
    t.id = select.integer(0);
    t.name = printable(select.text(1));
    t.target = printable(select.text(2));
    t.threads = static_cast<int>(select.integer(3));
    t.labels = printable(select.text(4));
    t.version = printable(select.text(5));
    t.most_agents = select.integer(6);
    t.seen_ms = select.integer(7);
  }
}

Result<std::string> Roster::work(std::int64_t tuning) const {
  TESSERA_TRY(Statement select, connection_->prepare("SELECT work FROM tunings WHERE id = ?"));
  select.bind(0, tuning);
  TESSERA_TRY(const bool row, select.step());
  std::string work = row ? select.bytes(0) : std::string();
  if (row) select.reset();
  return work;
}

Result<bool> Roster::join(std::int64_t tuning, std::int64_t agent, std::int64_t most_agents) {
  bool joined = false;
  const Result<void> done = connection_->transact([&]() -> Result<void> {
    // One after the other: two must not take the last place.
    TESSERA_DO(connection_->execute(
        fmt::format("UPDATE tunings SET state = state WHERE id = {}", tuning)));
    TESSERA_TRY(
        const std::int64_t known,
        connection_->query_integer(fmt::format(
            "SELECT count(*) FROM helpers WHERE tuning = {} AND agent = {} AND refused = ''",
            tuning, agent)));
    TESSERA_TRY(const std::int64_t others,
                connection_->query_integer(fmt::format(
                    "SELECT count(*) FROM helpers JOIN agents ON agents.id = helpers.agent WHERE "
                    "helpers.tuning = {} AND refused = '' AND agents.state = 0 AND agents.seen > "
                    "{} - {}",
                    tuning, now(), kAgentGoneMs)));
    joined = known > 0 || most_agents == 0 || others < most_agents;
    if (known > 0 || !joined) return {};
    return connection_->execute(fmt::format(
        "INSERT INTO helpers (tuning, agent, refused) VALUES ({}, {}, '') ON CONFLICT (tuning, "
        "agent) DO UPDATE SET refused = ''",
        tuning, agent));
  });
  if (!done.ok()) return done.error();
  return joined;
}

Result<void> Roster::refuse(std::int64_t tuning, std::int64_t agent, const std::string& reason) {
  return connection_->transact([&]() -> Result<void> {
    TESSERA_TRY(Statement add,
                connection_->prepare("INSERT INTO helpers (tuning, agent, refused) VALUES (?, ?, ?)"
                                     " ON CONFLICT (tuning, agent) DO UPDATE SET refused = "
                                     "excluded.refused"));
    add.bind(0, tuning);
    add.bind(1, agent);
    add.bind(2, reason);
    return add.finish();
  });
}

Result<std::vector<HelperRow>> Roster::helpers(std::int64_t tuning) const {
  TESSERA_TRY(Statement select,
              connection_->prepare("SELECT agent, refused FROM helpers WHERE tuning = ? ORDER BY "
                                   "agent"));
  select.bind(0, tuning);
  std::vector<HelperRow> out;
  while (true) {
    TESSERA_TRY(const bool row, select.step());
    if (!row) return out;
    out.push_back({select.integer(0), printable(select.text(1))});
  }
}

}  // namespace tessera::fleet
