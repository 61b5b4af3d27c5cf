#include "tessera/trials/fleet/fleet_measurer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "tessera/support/clock.h"
#include "tessera/support/hash.h"
#include "tessera/trials/fleet/printable.h"
#include "tessera/trials/fleet/work.h"
#include "tessera/trials/record/database.h"

namespace tessera::fleet {
namespace {

using measure::Measurement;
using measure::Outcome;
using measure::Trial;

// Of one call to the database; longer waits are made of several, and can be interrupted.
constexpr std::chrono::milliseconds kCallPatience{10'000};
constexpr double kFirstPauseSeconds = 0.005, kLongestPauseSeconds = 0.1;
constexpr double kLongestRetrySeconds = 5;  // between two tries of a server that lacks something
constexpr double kLookSeconds = 1, kSeenSeconds = 5;
constexpr double kSayWaitingSeconds = 3;
// Machines of a group differ by less, and so do their moods.
constexpr double kDoubtfulFactor = 2;
// How long what is compared waits for another agent: one that was killed seems to be there until
// it is taken to be gone, and the budget of the tuning goes on.
constexpr double kCheckSeconds = 5;
constexpr const char* kExcluded = "another agent does not measure what it reports";

void pause(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(std::max(0.0, seconds)));
}

std::uint64_t candidate_of(const Trial& t) {
  return hash_bytes(schedule::to_text(t.steps), hash_bytes(t.task));
}

class FleetMeasurer final : public measure::Measurer {
 public:
  FleetMeasurer(const FleetOptions& fleet, Queue queue, TuningRow tuning, std::string work)
      : fleet_(fleet),
        queue_(std::move(queue)),
        roster_(queue_),
        tuning_(std::move(tuning)),
        work_(std::move(work)) {}
  ~FleetMeasurer() override { (void)roster_.close_tuning(tuning_.id, queue_); }
  FleetMeasurer(const FleetMeasurer&) = delete;
  FleetMeasurer& operator=(const FleetMeasurer&) = delete;

  Result<void> await_agents();

  void submit(std::vector<Trial> trials) override {
    std::vector<Batch> batches;
    batches.reserve(trials.size());
    for (Trial& t : trials) batches.push_back({{std::move(t)}});
    send(batches, /*compared=*/false);
  }
  void submit_together(std::vector<Trial> trials) override {
    for (Trial& t : trials) t.final = true;
    send({{std::move(trials)}}, /*compared=*/false);
  }
  std::vector<Measurement> collect(double timeout_s) override;
  std::size_t pending() const override { return waiting_ + results_.size(); }
  void cancel() override {
    (void)queue_.cancel(tuning_.id);
    pending_.clear();
    results_.clear();
    waiting_ = 0;
  }
  std::vector<Measurement> compare(const std::vector<Trial>& trials) override;
  measure::MachineState machine() const override { return state_; }
  std::vector<std::int64_t> take_doubted() override { return std::exchange(doubted_, {}); }
  measure::Capacity capacity() const override {
    return {std::max<std::size_t>(1, helping_.size()), queued_, true};
  }

 private:
  struct Pending {
    std::vector<std::uint64_t> ids;         // of the caller
    std::vector<std::uint64_t> candidates;  // of those that are not compared
    bool compared = false;
    std::string payload;
  };
  struct Ended {
    Measurement measurement;
    measure::MachineState machine;
    std::shared_ptr<const Pending> batch;
    std::size_t index = 0;  // in the batch
  };
  struct Report {
    std::int64_t agent = 0;
    double seconds = 0, calibration_s = 0;
  };

  void send(const std::vector<Batch>& batches, bool compared);
  Result<std::vector<std::int64_t>> enqueue(const std::vector<NewTrial>& trials);
  // What an agent measured that is not believed any more, for others.
  void send_again(Pending batch, std::int64_t not_by);
  void poll();
  Result<void> take_results();
  Result<void> open_again();
  void look();
  void take(const TrialResult& result);
  void end(const Pending& batch, BatchResult result);
  void keep_report(std::uint64_t candidate, const Measurement& m);
  // The fastest of them, and what was reported of it; null: none was.
  std::pair<std::size_t, const Report*> best_reported(const std::vector<Trial>& trials) const;
  bool others_help_than(std::int64_t agent) const;
  void open_to_all();
  void exclude_if_doubtful(const Report& reported, const Measurement& checked);
  void exclude(std::int64_t agent);
  void lose_all(const std::string& reason);
  std::string name_of(std::int64_t agent) const;
  bool interrupted() const { return fleet_.interrupted && fleet_.interrupted(); }

  FleetOptions fleet_;
  Queue queue_;
  Roster roster_;
  TuningRow tuning_;
  std::string work_;                         // that agents read
  std::map<std::int64_t, Pending> pending_;  // by trial of the queue
  std::size_t waiting_ = 0;                  // trials of those that are not compared
  std::deque<Ended> results_;
  std::map<std::uint64_t, Measurement> compared_;
  measure::MachineState state_;
  std::vector<AgentRow> here_;
  std::set<std::int64_t> helping_;  // agents
  std::size_t queued_ = 0;
  std::unordered_map<std::uint64_t, Report> reports_;  // the fastest, by candidate
  std::int64_t not_by_ = 0;            // agent that does not take what is compared; 0: all may
  std::set<std::int64_t> excluded_;    // agents whose results count no more
  std::vector<std::int64_t> doubted_;  // those of them that take_doubted() has not told
  Clock::time_point unchecked_{};      // when others took too long
  Clock::time_point reached_ = Clock::now(), helped_ = Clock::now();
  Clock::time_point looked_{}, seen_ = Clock::now();
};

BatchResult same_for_all(std::size_t count, Outcome outcome, const std::string& reason) {
  BatchResult out;
  out.measurements.assign(count, Measurement{.outcome = outcome, .reason = reason});
  return out;
}

// A server that lets nobody in, or whose disk is full, says so at once.
Result<std::vector<std::int64_t>> FleetMeasurer::enqueue(const std::vector<NewTrial>& trials) {
  const Clock::time_point begin = Clock::now();
  for (double retry_s = kLongestPauseSeconds;;
       retry_s = std::min(2 * retry_s, kLongestRetrySeconds)) {
    Result<std::vector<std::int64_t>> ids = queue_.enqueue(tuning_.id, trials, fleet_.weight);
    const bool again = !ids.ok() && ids.error().code == ErrorCode::kUnavailable &&
                       seconds_since(begin) < fleet_.patience_s;
    const Clock::time_point until = seconds_from_now(retry_s);
    while (again && !interrupted() && seconds_until(until) > 0)
      pause(std::min(kLongestPauseSeconds, seconds_until(until)));
    if (!again || interrupted()) return ids;
  }
}

void FleetMeasurer::send_again(Pending batch, std::int64_t not_by) {
  const Result<std::vector<std::int64_t>> ids = enqueue({{batch.payload, batch.compared, not_by}});
  if (!ids.ok())
    return end(batch, same_for_all(batch.ids.size(), Outcome::kWorkerLost, ids.error().message));
  pending_[ids->at(0)] = std::move(batch);
}

void FleetMeasurer::send(const std::vector<Batch>& batches, bool compared) {
  std::vector<NewTrial> trials;
  std::vector<Pending> pending;
  for (const Batch& b : batches) {
    trials.push_back({to_text(b), compared, compared ? not_by_ : 0});
    Pending& p = pending.emplace_back();
    p.compared = compared;
    p.payload = trials.back().payload;
    for (const Trial& t : b.trials) {
      p.ids.push_back(t.id);
      if (!compared) p.candidates.push_back(candidate_of(t));
    }
    if (!compared) waiting_ += b.trials.size();
  }
  const Result<std::vector<std::int64_t>> ids = enqueue(trials);
  if (!ids.ok()) {
    for (const Pending& p : pending)
      end(p, same_for_all(p.ids.size(), Outcome::kWorkerLost, ids.error().message));
    return;
  }
  for (std::size_t i = 0; i < pending.size(); ++i) pending_[(*ids)[i]] = std::move(pending[i]);
  queued_ += trials.size();
}

// Measurements come in the state of the machine that took them: machine() is asked beside them.
std::vector<Measurement> FleetMeasurer::collect(double timeout_s) {
  const Clock::time_point until = seconds_from_now(timeout_s);
  double wait_s = kFirstPauseSeconds;
  while (results_.empty() && waiting_ > 0) {
    poll();
    if (!results_.empty() || seconds_until(until) <= 0) break;
    pause(std::min(wait_s, seconds_until(until)));
    wait_s = std::min(2 * wait_s, kLongestPauseSeconds);
  }
  std::vector<Measurement> out;
  if (!results_.empty()) state_ = results_.front().machine;
  while (!results_.empty() && results_.front().machine.busy == state_.busy) {
    state_ = results_.front().machine;
    out.push_back(std::move(results_.front().measurement));
    results_.pop_front();
  }
  return out;
}

std::vector<Measurement> FleetMeasurer::compare(const std::vector<Trial>& trials) {
  std::vector<Measurement> out;
  if (trials.empty()) return out;
  Batch batch;
  for (std::size_t i = 0; i < trials.size() && i < measure::kMostCompared; ++i) {
    batch.trials.push_back(trials[i]);
    batch.trials.back().id = i;  // those of the caller may be equal to one another
    batch.trials.back().final = true;
  }
  compared_.clear();
  look();
  const auto [best, reported] = best_reported(batch.trials);
  const bool others = reported != nullptr && others_help_than(reported->agent) &&
                      seconds_since(unchecked_) * 1e3 > kAgentGoneMs;
  not_by_ = others ? reported->agent : 0;
  send({batch}, /*compared=*/true);
  const Clock::time_point begin = Clock::now();
  double wait_s = kFirstPauseSeconds;
  while (compared_.size() < batch.trials.size() && !interrupted()) {
    poll();
    if (not_by_ != 0 && seconds_since(begin) > kCheckSeconds) open_to_all();
    pause(wait_s);
    wait_s = std::min(2 * wait_s, kLongestPauseSeconds);
  }
  std::erase_if(pending_, [](const auto& p) { return p.second.compared; });
  not_by_ = 0;
  if (reported != nullptr && compared_.contains(best))
    exclude_if_doubtful(Report(*reported), compared_[best]);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const auto it = compared_.find(i);
    out.push_back(it != compared_.end() ? it->second
                                        : Measurement{.outcome = Outcome::kWorkerLost,
                                                      .reason = "it was not compared"});
    out.back().id = trials[i].id;
  }
  return out;
}

void FleetMeasurer::open_to_all() {
  const Result<std::int64_t> waited = queue_.open_to_all(tuning_.id);
  if (!waited.ok()) return;
  not_by_ = 0;
  if (*waited > 0) unchecked_ = Clock::now();
}

void FleetMeasurer::poll() {
  if (seconds_since(looked_) > kLookSeconds) look();
  if (const Result<void> taken = take_results(); taken.ok()) {
    reached_ = Clock::now();
  } else if (seconds_since(reached_) > fleet_.patience_s) {
    lose_all(taken.error().message);
  }
}

Result<void> FleetMeasurer::take_results() {
  TESSERA_TRY(const std::vector<TrialResult> results, queue_.results(tuning_.id));
  std::vector<std::int64_t> taken;
  for (const TrialResult& r : results) {
    take(r);
    taken.push_back(r.trial);
  }
  if (!taken.empty()) (void)queue_.take(tuning_.id, taken);
  return {};
}

// This tuner slept or could not reach the database, was taken to be gone, and its trials were
// cancelled: they are another tuning now.
Result<void> FleetMeasurer::open_again() {
  TESSERA_DO(take_results());
  TESSERA_TRY(const std::int64_t id, roster_.open_tuning(tuning_, work_));
  std::vector<NewTrial> trials;
  for (const auto& [trial, batch] : pending_)
    trials.push_back({batch.payload, batch.compared, batch.compared ? not_by_ : 0});
  const Result<std::vector<std::int64_t>> ids = queue_.enqueue(id, trials, fleet_.weight);
  if (!ids.ok()) {
    (void)roster_.close_tuning(id, queue_);
    return ids.error();
  }
  (void)queue_.cancel(tuning_.id);
  tuning_.id = id;
  for (const std::int64_t agent : excluded_) (void)roster_.refuse(id, agent, kExcluded);
  std::size_t next = 0;
  std::map<std::int64_t, Pending> pending;
  for (auto& [trial, batch] : pending_) pending[(*ids)[next++]] = std::move(batch);
  pending_ = std::move(pending);
  helped_ = Clock::now();
  if (fleet_.note) fleet_.note("others took this tuning to be gone; what waits is queued again");
  return {};
}

// Who is there, and whether anybody works for this tuning.
void FleetMeasurer::look() {
  looked_ = Clock::now();
  if (seconds_since(seen_) > kSeenSeconds) {
    const Result<bool> open = roster_.tuning_seen(tuning_.id);
    if (open.ok() && (*open || open_again().ok())) seen_ = Clock::now();
  }
  Result<std::vector<AgentRow>> here = roster_.agents();
  const Result<std::vector<HelperRow>> helpers = roster_.helpers(tuning_.id);
  const Result<QueueCounts> counts = queue_.counts_of(tuning_.id);
  if (!here.ok() || !helpers.ok() || !counts.ok()) return;
  queued_ = static_cast<std::size_t>(counts->queued);
  here_ = std::move(here).value();
  helping_.clear();
  for (const AgentRow& a : here_) {
    const bool helps = std::ranges::any_of(*helpers, [&](const HelperRow& h) {
      return h.agent == a.id && h.refused.empty() && a.state == AgentState::kWorking;
    });
    if (helps) helping_.insert(a.id);
  }
  // Whoever could have taken what is compared went away.
  if (not_by_ != 0 && !others_help_than(not_by_) && queue_.open_to_all(tuning_.id).ok())
    not_by_ = 0;
  if (!helping_.empty() || counts->claimed > 0) helped_ = Clock::now();
  if (seconds_since(helped_) > fleet_.patience_s) lose_all(why_none_fits(here_, tuning_, *helpers));
}

std::string FleetMeasurer::name_of(std::int64_t agent) const {
  const auto it = std::ranges::find(here_, agent, &AgentRow::id);
  return it == here_.end() ? fmt::format("{}", agent) : it->name;
}

void FleetMeasurer::take(const TrialResult& result) {
  const auto it = pending_.find(result.trial);
  if (it == pending_.end()) return;
  Pending batch = std::move(it->second);
  pending_.erase(it);
  const std::size_t count = batch.ids.size();
  if (result.attempt > 0 && excluded_.contains(result.agent))
    return send_again(std::move(batch), result.agent);
  if (result.attempt == 0) {
    return end(batch, same_for_all(count, Outcome::kRunError,
                                   fmt::format("{} agents went away while they measured it",
                                               kMostAttempts)));
  }
  Result<BatchResult> told = result_from_text(result.payload);
  if (told.ok() && told->measurements.size() == count) {
    for (Measurement& m : told->measurements) {
      m.machine = result.agent;
      m.reason = printable_lines(m.reason);
    }
    return end(batch, std::move(told).value());
  }
  const std::string refused = printable_lines(reason_of_refusal(result.payload));
  const std::string why = !refused.empty() ? "refused: " + refused
                          : !told.ok()     ? "reports what cannot be read: " + told.error().message
                                           : "did not measure all that it took";
  end(batch, same_for_all(count, refused.empty() ? Outcome::kWorkerLost : Outcome::kInvalidStatic,
                          fmt::format("agent {} {}", name_of(result.agent), why)));
}

void FleetMeasurer::end(const Pending& batch, BatchResult result) {
  const auto kept = batch.compared ? nullptr : std::make_shared<const Pending>(batch);
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    Measurement& m = result.measurements[i];
    m.id = batch.ids[i];
    if (batch.compared) {
      compared_[m.id] = std::move(m);
      continue;
    }
    --waiting_;
    keep_report(batch.candidates[i], m);
    results_.push_back({std::move(m), result.machine, kept, i});
  }
  if (batch.compared) state_ = result.machine;
}

void FleetMeasurer::keep_report(std::uint64_t candidate, const Measurement& m) {
  if (m.outcome != Outcome::kOk || m.machine == 0) return;
  Report& known = reports_[candidate];
  if (known.agent == 0 || m.seconds() < known.seconds)
    known = {m.machine, m.seconds(), m.calibration_s};
}

std::pair<std::size_t, const FleetMeasurer::Report*> FleetMeasurer::best_reported(
    const std::vector<Trial>& trials) const {
  std::pair<std::size_t, const Report*> best{0, nullptr};
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const auto it = reports_.find(candidate_of(trials[i]));
    if (it == reports_.end()) continue;
    if (best.second == nullptr || it->second.seconds < best.second->seconds)
      best = {i, &it->second};
  }
  return best;
}

bool FleetMeasurer::others_help_than(std::int64_t agent) const {
  return helping_.size() > (helping_.contains(agent) ? 1U : 0U);
}

// Another agent, at the speed that both machines have, does not find what one reported: it is out.
void FleetMeasurer::exclude_if_doubtful(const Report& reported, const Measurement& checked) {
  if (checked.machine == 0 || checked.machine == reported.agent || checked.disturbed) return;
  const bool timed = checked.outcome == Outcome::kOk;
  // Whether something can be built and run in time depends on what else the checking machine does.
  if (!timed && checked.outcome != Outcome::kWrongResult &&
      checked.outcome != Outcome::kOutOfBounds && checked.outcome != Outcome::kRunError)
    return;
  const double seconds =
      measure::without_drift(checked.seconds(), checked.calibration_s, reported.calibration_s);
  if (timed && seconds < kDoubtfulFactor * reported.seconds) return;
  if (excluded_.contains(reported.agent)) return;
  if (fleet_.note) {
    fleet_.note(fmt::format(
        "agent {} reported {:.4g} us for what agent {} measures as {}; none of its results count "
        "in this tuning any more",
        name_of(reported.agent), reported.seconds * 1e6, name_of(checked.machine),
        timed ? fmt::format("{:.4g} us", seconds * 1e6) : measure::to_text(checked.outcome)));
  }
  exclude(reported.agent);
}

void FleetMeasurer::exclude(std::int64_t agent) {
  excluded_.insert(agent);
  doubted_.push_back(agent);
  helping_.erase(agent);
  // Where the database cannot be had now, take() refuses what comes of it all the same.
  (void)roster_.refuse(tuning_.id, agent, kExcluded);
  std::erase_if(reports_, [&](const auto& r) { return r.second.agent == agent; });
  std::deque<Ended> believed;
  for (Ended& e : std::exchange(results_, {})) {
    const bool doubted = e.measurement.machine == agent;
    const Result<Batch> sent = doubted ? batch_from_text(e.batch->payload) : Batch();
    if (!doubted || !sent.ok()) {
      believed.push_back(std::move(e));
      continue;
    }
    Pending again;
    again.ids = {e.measurement.id};
    again.candidates = {e.batch->candidates.at(e.index)};
    again.payload = to_text(Batch{{sent->trials.at(e.index)}});
    ++waiting_;
    send_again(std::move(again), agent);
  }
  for (Ended& e : results_) believed.push_back(std::move(e));  // that could not be sent again
  results_ = std::move(believed);
}

void FleetMeasurer::lose_all(const std::string& reason) {
  (void)queue_.cancel(tuning_.id);
  const auto lost = std::exchange(pending_, {});
  for (const auto& [trial, batch] : lost)
    end(batch, same_for_all(batch.ids.size(), Outcome::kWorkerLost, reason));
}

Result<void> FleetMeasurer::await_agents() {
  const Clock::time_point begin = Clock::now();
  bool said = false;
  for (double wait_s = kFirstPauseSeconds;; wait_s = std::min(2 * wait_s, kLongestPauseSeconds)) {
    look();
    if (!helping_.empty()) return {};
    if (interrupted()) return make_error(ErrorCode::kUnavailable, "interrupted");
    TESSERA_TRY(const std::vector<HelperRow> helpers, roster_.helpers(tuning_.id));
    const std::string why = why_none_fits(here_, tuning_, helpers);
    if (seconds_since(begin) > fleet_.patience_s) {
      return make_error(ErrorCode::kUnavailable, "{} (waited {:.0f} s)", why, fleet_.patience_s);
    }
    if (!said && fleet_.note && seconds_since(begin) > kSayWaitingSeconds) {
      fleet_.note("waiting for an agent; " + why);
      said = true;
    }
    pause(wait_s);
  }
}

}  // namespace

Result<std::unique_ptr<measure::Measurer>> start_fleet_measurer(
    const FleetOptions& fleet, std::vector<measure::MeasuredTask> tasks,
    const target::Target& target, const measure::MeasureOptions& options) {
  if (options.in_place) {
    return make_error(ErrorCode::kUnsupported, "agents measure kernels alone, not in place");
  }
  // The tables of records come first.
  TESSERA_TRY([[maybe_unused]] const record::Database records,
              record::Database::open(fleet.database));
  TESSERA_TRY(Queue queue, Queue::open(fleet.database, kCallPatience));
  TuningRow tuning;
  tuning.name = fleet.name;
  tuning.target = target::to_text(target);
  tuning.threads = options.threads;
  tuning.labels = to_text(fleet.agents.labels);
  tuning.version = fleet.version;
  tuning.most_agents = fleet.agents.most;
  std::string work = to_text(Work{target, std::move(tasks), options});
  if (work.size() > kMostWorkBytes) {
    return make_error(ErrorCode::kUnsupported, "{} bytes of tasks are more than agents take ({})",
                      work.size(), kMostWorkBytes);
  }
  Roster roster(queue);
  TESSERA_DO(roster.tidy(queue));
  TESSERA_TRY(tuning.id, roster.open_tuning(tuning, work));
  auto measurer = std::make_unique<FleetMeasurer>(fleet, std::move(queue), tuning, std::move(work));
  TESSERA_DO(measurer->await_agents());
  return std::unique_ptr<measure::Measurer>(std::move(measurer));
}

}  // namespace tessera::fleet
