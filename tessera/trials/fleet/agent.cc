#include "tessera/trials/fleet/agent.h"

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "tessera/machine/target/cpus.h"
#include "tessera/support/clock.h"
#include "tessera/trials/fleet/printable.h"
#include "tessera/trials/fleet/work.h"
#include "tessera/trials/record/database.h"

namespace tessera::fleet {
namespace {

using measure::Measurement;
using measure::Measurer;
using measure::Outcome;

// Of one call to the database; longer waits are made of several, and can be stopped.
constexpr std::chrono::milliseconds kCallPatience{5'000};
constexpr std::chrono::milliseconds kShortestLease{100}, kLongestLease{3'600'000};
constexpr double kCollectSeconds = 0.05;
// Between two tries of a database that is not there or lacks something, twice as long each time.
constexpr double kRetrySeconds = 0.5, kLongestRetrySeconds = 8;
constexpr std::chrono::milliseconds kIdleWait{250};
constexpr double kLongestBeatSeconds = 5;  // far less than kAgentGoneMs
constexpr double kLookSeconds = 2, kIdleLookSeconds = 0.5;
// A batch is about so much work; results wait at most so long, or for so many others.
constexpr double kBatchSeconds = 1, kReportSeconds = 0.2;
constexpr std::size_t kReportMost = 16;
constexpr double kFirstTrialSeconds = 0.25, kNewestShare = 0.2;  // of a trial, before any is known
constexpr double kLastTrialSeconds = 1;
constexpr std::size_t kMostMeasurers = 4;
// Of the memory: what the tensors of one task may take.
constexpr double kTensorShare = 0.25;

// The workers of one tuning.
struct Crew {
  std::int64_t tuning = 0;
  std::unique_ptr<Measurer> measurer;
  double trial_s = 0;  // that building and running a trial may take
};

// A trial of the queue that this agent holds.
struct Held {
  Claim claim;
  BatchResult result;
  std::size_t left = 0;  // candidates without a measurement
};

double tensor_bytes(const te::Dag& dag) {
  const auto bytes_of = [](const ir::Buffer& b) {
    return static_cast<double>(b.size()) * size_bytes(b->dtype);
  };
  double bytes = 0;
  for (const te::Input& input : dag.inputs) bytes += bytes_of(input.buffer);
  for (const te::Op& op : dag.ops) {
    for (const ir::Buffer& b : op.outputs) bytes += bytes_of(b);
  }
  return bytes;
}

// Why this machine does not take work that anybody may have written.
std::string why_refused(const Work& work, const TuningRow& tuning, const AgentOptions& options) {
  if (target::to_text(work.target) != tuning.target || work.options.threads != tuning.threads)
    return "its work is not for the machine that it names";
  if (work.tasks.empty()) return "it has no tasks";
  const double most = kTensorShare * static_cast<double>(target::usable_memory());
  for (const measure::MeasuredTask& t : work.tasks) {
    if (most > 0 && tensor_bytes(t.dag) > most)
      return fmt::format("the tensors of task {} take more than {:.0f} MB", t.key, most / 1e6);
  }
  if (work.options.threads > options.threads) return "it wants more threads";
  return "";
}

class Agent {
 public:
  Agent(const AgentOptions& options, const AgentCallbacks& callbacks, Queue queue)
      : options_(options), callbacks_(callbacks), queue_(std::move(queue)), roster_(queue_) {}

  Result<void> join();
  Result<AgentTotals> run();

 private:
  Result<void> turn();
  Result<void> beat();
  Result<void> look();
  Result<void> consider(const TuningRow& tuning);
  Result<void> enter(const TuningRow& tuning);
  Result<void> claim();
  Result<void> report();
  Result<Measurer*> crew_of(std::int64_t tuning);
  Result<void> decline(std::int64_t tuning, const std::string& why);
  Result<void> start_next();
  Result<bool> start(const Claim& claim);
  void refuse(const Claim& claim, const std::string& reason);
  void collect(double timeout_s);
  void drop_lost(const std::vector<std::int64_t>& held);
  Result<void> give_back_unknown(const std::vector<std::int64_t>& held);
  void finish(Measurement m);
  void retire(std::int64_t tuning);
  Result<void> end_hung();
  void wait_to_retry(double seconds);
  void leave();
  void count_time();

  std::size_t in_hand() const { return waiting_.size() + held_.size(); }
  std::size_t batch() const {
    return static_cast<std::size_t>(std::clamp(kBatchSeconds / trial_s_, 1.0, 1.0 * kMostClaimed));
  }
  bool stopped() const { return callbacks_.stop && callbacks_.stop(); }
  void note(const std::string& line) const {
    if (callbacks_.note) callbacks_.note(printable(line));
  }

  const AgentOptions& options_;
  const AgentCallbacks& callbacks_;
  Queue queue_;
  Roster roster_;
  AgentRow row_;
  AgentTotals totals_;
  std::set<std::int64_t> joined_, declined_;    // tunings
  std::map<std::int64_t, TuningRow> accepted_;  // that may be joined
  std::list<Crew> crews_;                       // the latest first
  std::int64_t active_ = 0;                     // tuning whose trials are measured now; 0: none
  std::deque<Claim> waiting_;                   // claimed, not submitted
  std::map<std::int64_t, Held> held_;           // submitted, by trial
  struct Place {
    std::int64_t trial = 0;
    std::size_t index = 0;
  };
  std::map<std::uint64_t, Place> places_;  // by id of a trial of the measurer
  std::vector<TrialResult> done_;          // to be reported
  std::uint64_t next_id_ = 1;
  double trial_s_ = kFirstTrialSeconds;
  bool draining_ = false, helped_ = false;  // helped_: worked for a tuning
  Clock::time_point beaten_ = Clock::now(), looked_{}, busy_ = Clock::now();
  Clock::time_point finished_ = Clock::now(), oldest_done_{};
  double heartbeat_s_ = 0;
  bool measuring_ = false;  // since counted_
  Clock::time_point counted_ = Clock::now();
};

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Result<void> Agent::join() {
  row_.name = options_.name;
  row_.target = target::to_text(options_.target);
  row_.threads = options_.threads;
  row_.labels = to_text(options_.labels);
  row_.version = options_.version;
  row_.calibration_s = options_.calibration_s;
  TESSERA_TRY(row_.id, roster_.add_agent(row_));
  heartbeat_s_ = seconds_since_1970();
  return {};
}

// The heartbeat: well before the lease ends, so that one that is late does no harm.
Result<void> Agent::beat() {
  const double lease_s = std::chrono::duration<double>(options_.lease).count();
  if (seconds_since(beaten_) < std::min(lease_s / 5, kLongestBeatSeconds)) return {};
  TESSERA_TRY(const AgentState state, roster_.seen(row_.id, totals_.trials, totals_.failed));
  if (state == AgentState::kDraining) draining_ = true;
  if (state == AgentState::kGone) {
    // Forgotten, as after a day's sleep.
    TESSERA_DO(join());
    joined_.clear();
    declined_.clear();
  }
  TESSERA_TRY(const std::vector<std::int64_t> held, queue_.renew(row_.id, options_.lease));
  drop_lost(held);
  TESSERA_DO(give_back_unknown(held));
  beaten_ = Clock::now();
  heartbeat_s_ = seconds_since_1970();
  return {};
}

// Claimed, and the answer was lost with the line: nobody would measure it as long as this agent
// renews its lease.
Result<void> Agent::give_back_unknown(const std::vector<std::int64_t>& held) {
  std::vector<std::int64_t> known;
  for (const Claim& c : waiting_) known.push_back(c.trial);
  for (const auto& [trial, of_it] : held_) known.push_back(trial);
  for (const TrialResult& r : done_) known.push_back(r.trial);
  const bool all_known = std::ranges::all_of(
      held, [&](std::int64_t t) { return std::ranges::find(known, t) != known.end(); });
  if (all_known) return {};
  TESSERA_TRY(const std::int64_t count, queue_.give_back(row_.id, known));
  totals_.given_back += count;
  return {};
}

// Nobody wants what it no longer holds: taken over, or cancelled.
void Agent::drop_lost(const std::vector<std::int64_t>& held) {
  const auto lost = [&](std::int64_t trial) { return !std::ranges::binary_search(held, trial); };
  std::erase_if(waiting_, [&](const Claim& c) { return lost(c.trial); });
  std::erase_if(held_, [&](const auto& h) { return lost(h.first); });
  // What still runs of them is not taken for what comes of another attempt.
  std::erase_if(places_, [&](const auto& p) { return lost(p.second.trial); });
  if (!held_.empty() || active_ == 0) return;
  for (const Crew& c : crews_) {
    if (c.tuning == active_) c.measurer->cancel();
  }
  places_.clear();
}

Result<void> Agent::look() {
  const bool idle = in_hand() == 0;
  if (seconds_since(looked_) < (idle ? kIdleLookSeconds : kLookSeconds)) return {};
  looked_ = Clock::now();
  TESSERA_DO(roster_.tidy(queue_));
  TESSERA_TRY(const std::vector<TuningRow> tunings, roster_.tunings());
  const auto open = [&](std::int64_t id) {
    return std::ranges::find(tunings, id, &TuningRow::id) != tunings.end();
  };
  for (auto it = crews_.begin(); it != crews_.end();) {
    const bool ended = !open(it->tuning) && (idle || it->tuning != active_);
    it = ended ? crews_.erase(it) : std::next(it);
  }
  std::erase_if(joined_, [&](std::int64_t t) { return !open(t); });
  std::erase_if(declined_, [&](std::int64_t t) { return !open(t); });
  std::erase_if(accepted_, [&](const auto& t) { return !open(t.first); });
  for (const TuningRow& t : tunings) {
    if (!joined_.contains(t.id) && !declined_.contains(t.id)) TESSERA_DO(consider(t));
  }
  return {};
}

Result<void> Agent::consider(const TuningRow& tuning) {
  if (!why_unfit(row_, tuning).empty()) {
    declined_.insert(tuning.id);
    return {};
  }
  if (accepted_.contains(tuning.id)) return enter(tuning);
  TESSERA_TRY(const std::string text, roster_.work(tuning.id));
  const Result<Work> work = work_from_text(text);
  const std::string why = work.ok() ? why_refused(*work, tuning, options_) : work.error().message;
  if (!why.empty()) {
    note(fmt::format("tuning {} refused: {}", tuning.id, why));
    declined_.insert(tuning.id);
    return roster_.refuse(tuning.id, row_.id, why);
  }
  accepted_[tuning.id] = tuning;
  return enter(tuning);
}

// Without a place now: one may become free.
Result<void> Agent::enter(const TuningRow& tuning) {
  TESSERA_TRY(const bool joined, roster_.join(tuning.id, row_.id, tuning.most_agents));
  if (joined) joined_.insert(tuning.id);
  helped_ = helped_ || joined;
  return {};
}

Result<void> Agent::claim() {
  if (draining_ || joined_.empty() || 2 * in_hand() >= batch() + 1) return {};
  const auto limit = static_cast<int>(std::max<std::size_t>(1, batch() - in_hand() / 2));
  TESSERA_TRY(std::vector<Claim> claims, queue_.claim(row_.id, limit, options_.lease));
  totals_.claimed += std::ssize(claims);
  std::ranges::stable_sort(claims, {}, &Claim::session);
  waiting_.insert(waiting_.end(), claims.begin(), claims.end());
  return {};
}

// The workers of a tuning: those of the last few are kept. kUnavailable: the database is not there.
Result<Measurer*> Agent::crew_of(std::int64_t tuning) {
  const auto known = std::ranges::find(crews_, tuning, &Crew::tuning);
  if (known != crews_.end()) {
    crews_.splice(crews_.begin(), crews_, known);
    return crews_.front().measurer.get();
  }
  TESSERA_TRY(const std::string text, roster_.work(tuning));
  Result<Work> work = work_from_text(text);
  if (!work.ok()) return make_error(ErrorCode::kRunFailed, "{}", work.error().message);
  // Others may have changed it since it was accepted.
  const auto accepted = accepted_.find(tuning);
  const std::string why = accepted == accepted_.end()
                              ? "it was not accepted"
                              : why_refused(*work, accepted->second, options_);
  if (!why.empty()) return make_error(ErrorCode::kRunFailed, "{}", why);
  const double trial_s = work->options.build_timeout_s + work->options.run_timeout_s;
  Result<std::unique_ptr<Measurer>> measurer =
      options_.start_measurer(std::move(work->tasks), work->target, work->options);
  if (!measurer.ok()) return make_error(ErrorCode::kRunFailed, "{}", measurer.error().message);
  crews_.push_front({tuning, std::move(measurer).value(), trial_s});
  if (crews_.size() > kMostMeasurers) crews_.pop_back();
  return crews_.front().measurer.get();
}

void Agent::retire(std::int64_t tuning) {
  std::erase_if(crews_, [&](const Crew& c) { return c.tuning == tuning; });
}

void Agent::refuse(const Claim& claim, const std::string& reason) {
  if (done_.empty()) oldest_done_ = Clock::now();
  done_.push_back({claim.trial, claim.attempt, refusal(reason)});
  ++totals_.trials;
  ++totals_.failed;
}

// The tuning cannot be worked for here: others take what this agent holds.
Result<void> Agent::decline(std::int64_t tuning, const std::string& why) {
  note(fmt::format("tuning {} refused: {}", tuning, why));
  declined_.insert(tuning);
  joined_.erase(tuning);
  TESSERA_DO(roster_.refuse(tuning, row_.id, why));
  while (!done_.empty()) TESSERA_DO(report());
  TESSERA_TRY(const std::int64_t count, queue_.give_back(row_.id));
  totals_.given_back += count;
  waiting_.clear();
  return {};
}

// False: not now, since another tuning has the cores.
Result<bool> Agent::start(const Claim& claim) {
  if (!held_.empty() && claim.session != active_) return false;
  Result<Batch> batch = batch_from_text(claim.payload);
  if (!batch.ok()) {
    refuse(claim, batch.error().message);
    return true;
  }
  const Result<Measurer*> measurer = crew_of(claim.session);
  if (!measurer.ok() && measurer.error().code == ErrorCode::kUnavailable) return measurer.error();
  if (!measurer.ok()) {
    // It says nothing about the candidate.
    TESSERA_DO(decline(claim.session, measurer.error().message));
    return false;
  }
  active_ = claim.session;
  const std::size_t count = batch->trials.size();
  for (std::size_t i = 0; i < count; ++i) {
    batch->trials[i].id = next_id_++;
    places_[batch->trials[i].id] = {claim.trial, i};
  }
  Held& held = held_[claim.trial];
  held.claim = claim;
  held.left = count;
  held.result.measurements.resize(count);
  if (count == 1) {
    (*measurer)->submit(std::move(batch->trials));
  } else {
    (*measurer)->submit_together(std::move(batch->trials));
  }
  return true;
}

Result<void> Agent::start_next() {
  while (!waiting_.empty()) {
    const Claim& next = waiting_.front();
    const auto again = held_.find(next.trial);
    if (again != held_.end()) {
      // Its lease ran out here, and it came back: what runs counts as the new attempt.
      again->second.claim = next;
    } else {
      TESSERA_TRY(const bool started, start(next));
      if (!started) return {};
    }
    waiting_.pop_front();
  }
  return {};
}

void Agent::finish(Measurement m) {
  const auto place = places_.find(m.id);
  if (place == places_.end()) return;
  const auto it = held_.find(place->second.trial);
  const std::size_t index = place->second.index;
  places_.erase(place);
  if (it == held_.end()) return;
  Held& held = it->second;
  ++totals_.trials;
  totals_.failed += measure::is_timed(m.outcome) ? 0 : 1;
  held.result.measurements[index] = std::move(m);
  if (--held.left > 0) return;
  if (done_.empty()) oldest_done_ = Clock::now();
  done_.push_back({held.claim.trial, held.claim.attempt, to_text(held.result)});
  held_.erase(it);
}

// Called where measuring begins and ends.
void Agent::count_time() {
  const Clock::time_point now = Clock::now();
  if (measuring_) totals_.measuring_s += seconds_between(counted_, now);
  measuring_ = !held_.empty();
  counted_ = now;
}

void Agent::collect(double timeout_s) {
  count_time();
  const auto crew = std::ranges::find(crews_, active_, &Crew::tuning);
  if (held_.empty() || crew == crews_.end()) return;
  std::vector<Measurement> measured = crew->measurer->collect(timeout_s);
  if (measured.empty()) return;
  const double each_s = seconds_since(finished_) / static_cast<double>(measured.size());
  trial_s_ += kNewestShare * (std::min(each_s, kBatchSeconds) - trial_s_);
  finished_ = busy_ = Clock::now();
  const measure::MachineState state = crew->measurer->machine();
  bool lost = true;
  for (Measurement& m : measured) {
    lost = lost && m.outcome == Outcome::kWorkerLost;
    const auto place = places_.find(m.id);
    if (place != places_.end() && held_.contains(place->second.trial))
      held_[place->second.trial].result.machine = state;
    finish(std::move(m));
  }
  count_time();
  // Its server may be gone: a new one is started for what comes next.
  if (lost && held_.empty()) retire(active_);
}

// This agent beats, so its leases last, but the server of its workers says nothing any more: others
// measure what it had.
Result<void> Agent::end_hung() {
  const auto crew = std::ranges::find(crews_, active_, &Crew::tuning);
  if (held_.empty() || crew == crews_.end()) return {};
  std::size_t most = 1;
  std::vector<std::int64_t> trials;
  for (const auto& [trial, held] : held_) {
    trials.push_back(trial);
    most = std::max(most, held.result.measurements.size());
  }
  // What lost its worker is tried once more.
  const double limit_s = options_.silence_s + 2 * static_cast<double>(most) * crew->trial_s;
  if (seconds_since(finished_) < limit_s) return {};
  note(fmt::format("the workers of tuning {} were silent for {:.0f} s and are started anew",
                   active_, seconds_since(finished_)));
  ++totals_.hung;
  held_.clear();
  places_.clear();
  retire(active_);
  count_time();
  TESSERA_TRY([[maybe_unused]] const std::int64_t count, queue_.expire(row_.id, trials));
  return {};
}

Result<void> Agent::report() {
  if (done_.empty()) return {};
  const bool due =
      done_.size() >= kReportMost || held_.empty() || seconds_since(oldest_done_) > kReportSeconds;
  if (!due) return {};
  const std::size_t count = std::min<std::size_t>(done_.size(), kMostClaimed);
  const std::vector<TrialResult> part(done_.begin(),
                                      done_.begin() + static_cast<std::ptrdiff_t>(count));
  TESSERA_TRY(const std::vector<std::int64_t> accepted, queue_.report(row_.id, part));
  totals_.late += static_cast<std::int64_t>(count - accepted.size());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  return {};
}

Result<void> Agent::turn() {
  TESSERA_DO(beat());
  TESSERA_DO(look());
  TESSERA_DO(claim());
  const bool was_idle = held_.empty();
  TESSERA_DO(start_next());
  if (was_idle) finished_ = Clock::now();
  collect(kCollectSeconds);
  TESSERA_DO(end_hung());
  TESSERA_DO(report());
  if (in_hand() > 0) {
    busy_ = Clock::now();
  } else if (!draining_ && done_.empty()) {
    queue_.wait(kIdleWait);
  }
  return {};
}

// The trial that runs may end; the rest is for others.
void Agent::leave() {
  if (!held_.empty()) collect(kLastTrialSeconds);
  for (const Crew& c : crews_) c.measurer->cancel();
  held_.clear();
  while (!done_.empty() && report().ok()) {
  }
  if (const Result<std::int64_t> count = queue_.give_back(row_.id); count.ok()) {
    totals_.given_back += *count;
  } else {
    note(count.error().message + "; others take over what it held when its lease ends");
  }
  (void)roster_.seen(row_.id, totals_.trials, totals_.failed);
  (void)roster_.remove_agent(row_.id);
}

// What runs goes on meanwhile.
void Agent::wait_to_retry(double seconds) {
  for (const Clock::time_point end = seconds_from_now(seconds);
       !stopped() && seconds_until(end) > 0;) {
    const double step_s = std::min(kRetrySeconds, seconds_until(end));
    collect(step_s);
    if (held_.empty()) std::this_thread::sleep_for(std::chrono::duration<double>(step_s));
  }
}

Result<AgentTotals> Agent::run() {
  bool reached = true;
  double retry_s = kRetrySeconds;
  for (;;) {
    if (stopped()) {
      totals_.ended_by = "a signal";
      break;
    }
    const bool idle = in_hand() == 0 && done_.empty();
    if (draining_ && idle) {
      totals_.ended_by = "drained";
      break;
    }
    const double idle_s = seconds_since(busy_);
    const bool once = options_.once && helped_ && joined_.empty();
    if (idle && (once || (options_.idle_exit_s > 0 && idle_s > options_.idle_exit_s))) {
      totals_.ended_by = "nothing to do";
      break;
    }
    const Result<void> done = turn();
    if (callbacks_.progress) callbacks_.progress({totals_, in_hand(), batch(), heartbeat_s_});
    if (done.ok()) {
      if (!std::exchange(reached, true)) note("the database is there again");
      retry_s = kRetrySeconds;
      continue;
    }
    if (done.error().code != ErrorCode::kUnavailable) {
      leave();
      return done.error();
    }
    if (std::exchange(reached, false)) note(done.error().message + "; trying again");
    wait_to_retry(retry_s);
    retry_s = std::min(2 * retry_s, kLongestRetrySeconds);
  }
  leave();
  return totals_;
}

}  // namespace

Result<AgentTotals> run_agent(const AgentOptions& options, const AgentCallbacks& callbacks) {
  if (options.lease < kShortestLease || options.lease > kLongestLease) {
    return make_error(ErrorCode::kInvalidArgument, "a lease of {} ms; 100 ms to 1 h are possible",
                      options.lease.count());
  }
  {
    // The tables of records come first.
    TESSERA_TRY([[maybe_unused]] const record::Database records,
                record::Database::open(options.database));
  }
  TESSERA_TRY(Queue queue, Queue::open(options.database, kCallPatience));
  Agent agent(options, callbacks, std::move(queue));
  TESSERA_DO(agent.join());
  return agent.run();
}

}  // namespace tessera::fleet
