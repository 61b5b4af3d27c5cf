#include "tessera/trials/fleet/simulate.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>
#include <vector>

#include "tessera/support/clock.h"
#include "tessera/support/parallel.h"
#include "tessera/support/quantile.h"
#include "tessera/support/rng.h"
#include "tessera/trials/fleet/roster.h"
#include "tessera/trials/record/database.h"

namespace tessera::fleet {
namespace {

constexpr std::chrono::milliseconds kLease{60'000};
constexpr double kBeatSeconds = 3;
constexpr std::size_t kEnqueuedAtOnce = 4096;
constexpr std::int64_t kMostTrials = 10'000'000;
// Of an agent with a pace, well within the lease and the time after which a tuning is gone.
constexpr double kLongestTurnSeconds = 20;
constexpr double kSleepSeconds = 0.05;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Text that compresses about as well as schedules do.
std::string text_of(std::int64_t bytes) {
  Rng rng(1);
  std::string out;
  while (std::ssize(out) < bytes) out += fmt::format("split C i {} tail=peel\n", rng.next() % 4096);
  out.resize(static_cast<std::size_t>(bytes));
  return out;
}

// Of one agent.
struct Tally {
  std::int64_t reported = 0, heartbeats = 0;
  std::vector<double> claims_ms, reports_ms;
};

template <class Call>
auto timed(std::vector<double>* times_ms, const Call& call) {
  const Clock::time_point begin = Clock::now();
  auto result = call();
  times_ms->push_back(milliseconds_since(begin));
  return result;
}

Result<void> check_goes_on(const SimulateOptions& options) {
  if (!options.interrupted || !options.interrupted()) return {};
  return make_error(ErrorCode::kUnavailable, "interrupted");
}

// Between two claims; 0: no pace.
double turn_seconds(const SimulateOptions& options) {
  return options.rate > 0 ? options.batch / options.rate : 0;
}

Result<void> sleep_until(const SimulateOptions& options, Clock::time_point time) {
  while (seconds_until(time) > 0) {
    TESSERA_DO(check_goes_on(options));
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(seconds_until(time), kSleepSeconds)));
  }
  return {};
}

// Until nothing waits. Agents with a pace begin at different parts of their first turn.
Result<Tally> take_turns(const SimulateOptions& options, Queue& queue, Roster& roster,
                         std::int64_t tuning, std::int64_t agent, double part) {
  Tally tally;
  const double turn_s = turn_seconds(options);
  const int limit = turn_s > 0 ? options.batch : options.claimed;
  Clock::time_point next = seconds_from_now(turn_s * part);
  Clock::time_point beaten = Clock::now();
  const std::string result = text_of(options.result_bytes);
  for (;;) {
    TESSERA_DO(sleep_until(options, next));
    next += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(turn_s));
    TESSERA_TRY(const std::vector<Claim> claims,
                timed(&tally.claims_ms, [&] { return queue.claim(agent, limit, kLease); }));
    if (claims.empty()) break;
    const auto batch = static_cast<std::size_t>(options.batch);
    for (std::size_t at = 0; at < claims.size(); at += batch) {
      std::vector<TrialResult> results;
      for (std::size_t i = at; i < std::min(claims.size(), at + batch); ++i)
        results.push_back({claims[i].trial, claims[i].attempt, result});
      TESSERA_TRY(const std::vector<std::int64_t> accepted,
                  timed(&tally.reports_ms, [&] { return queue.report(agent, results); }));
      tally.reported += std::ssize(accepted);
      TESSERA_DO(check_goes_on(options));
      if (seconds_since(beaten) < kBeatSeconds) continue;
      TESSERA_TRY([[maybe_unused]] const AgentState state, roster.seen(agent, tally.reported, 0));
      TESSERA_TRY([[maybe_unused]] const std::vector<std::int64_t> held,
                  queue.renew(agent, kLease));
      TESSERA_TRY([[maybe_unused]] const bool open, roster.tuning_seen(tuning));
      ++tally.heartbeats;
      beaten = Clock::now();
    }
  }
  return tally;
}

Result<Tally> work(const SimulateOptions& options, std::int64_t tuning, double part) {
  TESSERA_TRY(Queue queue, Queue::open(options.database));
  Roster roster(queue);
  TESSERA_TRY(const std::int64_t agent, roster.add_agent({.name = "simulated"}));
  TESSERA_TRY([[maybe_unused]] const bool joined, roster.join(tuning, agent, 0));
  Result<Tally> tally = take_turns(options, queue, roster, tuning, agent, part);
  const Result<void> removed = roster.remove_agent(agent);
  if (tally.ok() && !removed.ok()) return removed.error();
  return tally;
}

Result<Simulated> run(const SimulateOptions& options, std::int64_t tuning, Queue& queue) {
  Roster roster(queue);
  Simulated out;
  Clock::time_point begin = Clock::now();
  const std::string payload = text_of(options.payload_bytes);
  for (std::int64_t left = options.trials; left > 0;) {
    TESSERA_DO(check_goes_on(options));
    const auto count = std::min<std::int64_t>(left, kEnqueuedAtOnce);
    const std::vector<NewTrial> trials(static_cast<std::size_t>(count), NewTrial{payload});
    TESSERA_TRY([[maybe_unused]] const std::vector<std::int64_t> ids,
                queue.enqueue(tuning, trials));
    // Or agents that work beside it take its tuner to be gone.
    TESSERA_TRY([[maybe_unused]] const bool open, roster.tuning_seen(tuning));
    left -= count;
  }
  out.enqueue_s = seconds_since(begin);
  const auto agents = static_cast<std::size_t>(options.agents);
  std::vector<Result<Tally>> tallies(agents, Tally());
  begin = Clock::now();
  const double cpu_s = cpu_seconds();
  parallel_for(agents, options.agents, [&](std::size_t i) {
    tallies[i] = work(options, tuning, static_cast<double>(i) / options.agents);
  });
  out.wall_s = seconds_since(begin);
  out.own_cpu_s = cpu_seconds() - cpu_s;
  std::vector<double> claims_ms, reports_ms;
  for (const Result<Tally>& t : tallies) {
    if (!t.ok()) return t.error();
    out.trials += t->reported;
    out.heartbeats += t->heartbeats;
    claims_ms.insert(claims_ms.end(), t->claims_ms.begin(), t->claims_ms.end());
    reports_ms.insert(reports_ms.end(), t->reports_ms.begin(), t->reports_ms.end());
  }
  out.claims = std::ssize(claims_ms);
  out.reports = std::ssize(reports_ms);
  out.claim_p50_ms = quantile(claims_ms, 0.5);
  out.claim_p99_ms = quantile(claims_ms, 0.99);
  out.report_p50_ms = quantile(reports_ms, 0.5);
  out.report_p99_ms = quantile(reports_ms, 0.99);
  TESSERA_TRY(const QueueCounts counts, queue.counts_of(tuning));
  if (out.trials == options.trials && counts.done == options.trials) return out;
  return make_error(ErrorCode::kRunFailed, "{} trials, {} accepted, {} done: the queue is wrong",
                    options.trials, out.trials, counts.done);
}

}  // namespace

Result<Simulated> simulate(const SimulateOptions& options) {
  const bool sane = options.agents >= 1 && options.agents <= 1024 && options.trials >= 1 &&
                    options.trials <= kMostTrials && options.batch >= 1 &&
                    options.batch <= kMostClaimed && options.claimed >= 1 &&
                    options.claimed <= kMostClaimed && options.payload_bytes >= 0 &&
                    options.result_bytes >= 0;
  if (!sane) {
    return make_error(ErrorCode::kInvalidArgument,
                      "1 to 1024 agents, 1 to {} trials and batches of 1 to {} can be simulated",
                      kMostTrials, kMostClaimed);
  }
  if (!(options.rate >= 0) || turn_seconds(options) > kLongestTurnSeconds) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "batches of {} at {} trials per second and agent cannot be simulated: at most "
        "{:.0f} s may lie between two",
        options.batch, options.rate, kLongestTurnSeconds);
  }
  {
    // The tables of records come first.
    TESSERA_TRY([[maybe_unused]] const record::Database records,
                record::Database::open(options.database));
  }
  TESSERA_TRY(Queue queue, Queue::open(options.database));
  Roster roster(queue);
  TESSERA_TRY(const std::int64_t tuning, roster.open_tuning({.name = "a simulation"}, ""));
  Result<Simulated> out = run(options, tuning, queue);
  const Result<void> forgotten = roster.forget_tuning(tuning, queue);
  if (out.ok() && !forgotten.ok()) return forgotten.error();
  return out;
}

}  // namespace tessera::fleet
