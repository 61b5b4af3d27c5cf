#include "tessera/driver/tune/tune_session.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "tessera/driver/tune/tune_database.h"
#include "tessera/runtime/affinity.h"
#include "tessera/support/hash.h"
#include "tessera/target/cpus.h"

namespace tessera::driver {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kNoRound = std::numeric_limits<std::size_t>::max();

// Of a budget: what is kept for the finals and the whole model.
constexpr double kFinishShare = 0.18, kFinishMostSeconds = 150;
// Rounds are as long as this many seconds of trials, within kRoundLeast and kRoundMost.
constexpr double kRoundSeconds = 2;
constexpr double kRoundLeast = 8, kRoundMost = 64;
// ... and of a task whose candidates a trained model can tell apart before any is measured.
constexpr double kRoundLeastTrained = 2;
// Trials of a task without any gain before it stops.
constexpr std::int64_t kStopAfter = 512;
// Trials in a row that lose their workers: nothing can be measured any more.
constexpr std::int64_t kMostLost = 16;
// A candidate whose time was shared with other work is measured again this often; so many such
// times in a row end the search.
constexpr int kRepeats = 3;
constexpr std::int64_t kMostDisturbed = 256;
// Waited for the trial that runs when an interrupt comes.
constexpr double kLastTrialSeconds = 1;
constexpr const char* kFinal = "final";  // policy of records taken side by side at the end
// Side by side: this many at most, none slower than the best by more than the factor.
constexpr std::size_t kFinalists = 5;
constexpr double kFinalistFactor = 1.1;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string digest_of(const std::string& schedule) { return to_hex(hash_bytes(schedule)); }

// An option that is this much slower than the best one of its choice gets no more trials: the more
// it had, the less it can still catch up.
double losing_factor(std::int64_t trials) { return trials < 8 ? 2.5 : trials < 64 ? 1.5 : 1.2; }

}  // namespace

TuneSession::TuneSession(const TuneOptions& options, const TuneCallbacks& callbacks,
                         TuneProblem problem, Clock::time_point start)
    : options_(options),
      callbacks_(callbacks),
      problem_(std::move(problem)),
      start_(start),
      target_text_(target::to_text(options.target)),
      exclusive_(options.measure.threads >= target::usable_cpus()),
      before_s_(problem_.tasks.size(), 0),
      ended_(problem_.tasks.size(), 0) {
  search_until_s_ =
      options.budget_s <= 0
          ? kInfinity
          : options.budget_s - std::min(kFinishShare * options.budget_s, kFinishMostSeconds);
}

Result<std::unique_ptr<TuneSession>> TuneSession::start(const TuneOptions& options,
                                                        const TuneCallbacks& callbacks,
                                                        TuneProblem problem,
                                                        Clock::time_point start) {
  std::unique_ptr<TuneSession> s(new TuneSession(options, callbacks, std::move(problem), start));
  // Workers are forked, so they come before the learner's threads.
  std::vector<measure::MeasuredTask> measured;
  for (const TuneTask& t : s->problem_.tasks) measured.push_back({t.task.key, t.task.dag});
  const auto& start_measurer =
      options.start_measurer ? options.start_measurer : measure::start_local_measurer;
  TESSERA_TRY(s->measurer_, start_measurer(std::move(measured), options.target, options.measure));
  TESSERA_DO(s->open_database());
  TESSERA_DO(s->make_searches());
  return s;
}

Result<void> TuneSession::open_database() {
  if (options_.database.empty()) return {};
  record::SessionRow row;
  row.target = target_text_;
  row.options = options_.command;
  row.threads = options_.measure.threads;
  row.seed = options_.seed;
  TESSERA_TRY(OpenedStore opened,
              driver::open_database(options_.database, problem_.subjects, std::move(row)));
  store_ = std::move(opened.store);
  session_ = opened.session;
  Result<std::vector<std::string>> targets = targets_of_machine(*store_, options_.target);
  if (!targets) return Error{ErrorCode::kUnavailable, "database: " + targets.error().message};
  known_targets_ = std::move(targets).value();
  for (const TuneTask& t : problem_.tasks) {
    const Result<void> added = store_->add_task(
        {t.task.key, t.task.name, te::to_text(t.task.dag), t.task.flops, t.task.bytes});
    if (!added) {
      return make_error(ErrorCode::kUnavailable, "database {}: {}", options_.database,
                        added.error().message);
    }
  }
  return {};
}

bool TuneSession::is_tuned(std::size_t task) const {
  const std::vector<std::string>& keys = options_.tasks;
  const std::string& key = problem_.tasks[task].task.key;
  return keys.empty() || std::find(keys.begin(), keys.end(), key) != keys.end();
}

Result<void> TuneSession::make_searches() {
  for (const std::string& key : options_.tasks) {
    const bool known = std::any_of(problem_.tasks.begin(), problem_.tasks.end(),
                                   [&](const TuneTask& t) { return t.task.key == key; });
    if (!known) return make_error(ErrorCode::kInvalidArgument, "there is no task {}", key);
  }
  TESSERA_TRY(const search::PolicyEntry* policy, search::find_policy(options_.policy));
  if (policy->uses_model && options_.learner.model != "none") {
    search::LearnerOptions learning = options_.learner;
    if (exclusive_) learning.background = false;
    Result<std::unique_ptr<search::Learner>> made = search::Learner::make(learning);
    if (!made && options_.pretrained_optional && !learning.pretrained.empty()) {
      note(made.error().message + "; tuning starts without a pretrained model");
      learning.pretrained.clear();
      made = search::Learner::make(learning);
    }
    if (made) {
      learner_ = std::move(made).value();
    } else if (made.error().code == ErrorCode::kUnavailable) {
      note(made.error().message + "; the policy works from measured times alone");
    } else {
      return made.error();
    }
  }
  search::SchedulerOptions schedule;
  schedule.stop_after = options_.record_space ? 0 : kStopAfter;
  schedule.seed = options_.seed;
  if (problem_.subjects.size() > 1)
    schedule.objective = search::SchedulerOptions::Objective::kGeometricMean;
  std::vector<search::ScheduledTask> scheduled;
  for (const TuneTask& t : problem_.tasks) {
    scheduled.push_back({search::family_of(t.task.name), t.task.flops,
                         std::vector<double>(problem_.subjects.size(), 0)});
  }
  const auto weigh = [&](const TaskUse& use) {
    scheduled[use.task].weights[use.subject] += use.count;
  };
  for (const TaskUse& use : problem_.base) weigh(use);
  for (const TuneChoice& c : problem_.choices) {
    for (const TuneOption& o : c.options) std::for_each(o.uses.begin(), o.uses.end(), weigh);
  }
  scheduler_ = std::make_unique<search::TaskScheduler>(std::move(scheduled), schedule);
  Rng rng(options_.seed);
  for (std::size_t t = 0; t < tasks(); ++t) {
    const task::Task& task = problem_.tasks[t].task;
    Result<space::Space> space =
        space::make_space(task.dag, options_.target, {.sources = options_.sources});
    if (!space) return space.error().with_context(fmt::format("task {}", task.name));
    spaces_.push_back(std::make_unique<space::Space>(std::move(space).value()));
    search::PolicyOptions policy_options = options_.policy_options;
    // A session that goes on must not draw again what the last one drew.
    TESSERA_TRY(const std::int64_t known, known_records(t));
    policy_options.seed = hash_bytes(fmt::format("{} {}", rng.next(), known));
    searches_.push_back(std::make_unique<search::TaskSearch>(*spaces_.back(), *policy,
                                                             policy_options, learner_.get()));
    if (!is_tuned(t)) scheduler_->stop(t);
    TESSERA_DO(resume(t));
  }
  return {};
}

record::Filter TuneSession::filter_of(std::size_t task) const {
  record::Filter filter;
  filter.task = problem_.tasks[task].task.key;
  filter.targets = known_targets_;
  filter.threads = options_.measure.threads;
  filter.format = "tessera";
  return filter;
}

Result<std::int64_t> TuneSession::known_records(std::size_t task) const {
  if (!store_) return 0;
  Result<std::int64_t> count = store_->count(filter_of(task));
  if (!count) return Error{ErrorCode::kUnavailable, "database: " + count.error().message};
  return count;
}

Result<void> TuneSession::resume(std::size_t task) {
  if (!store_) return {};
  const space::Space& space = *spaces_[task];
  const std::string preferred = space.to_text(space.preferred());
  const auto replay = [&](const record::Record& r) {
    const Result<space::Candidate> candidate = space.parse(r.candidate);
    if (!candidate || !space.check(*candidate)) return true;
    // What a candidate means may have changed since.
    const Result<schedule::Schedule> steps = space.schedule(*candidate);
    if (!steps || digest_of(schedule::to_text(*steps)) != r.schedule_digest) return true;
    record::Record known = r;
    known.seconds = at_reference(r.seconds, r.calibration_s);
    const bool timed = known.seconds > 0 && r.outcome == "ok";
    if (r.candidate == preferred && timed) before_s_[task] = known.seconds;
    // Finals repeat candidates that have records of their own.
    if (r.policy == kFinal || !searches_[task]->replay(known)) return true;
    ++earlier_;
    ++trials_;
    return true;
  };
  const Result<void> done = store_->visit(filter_of(task), replay);
  if (!done) return Error{ErrorCode::kUnavailable, "database: " + done.error().message};
  if (searches_[task]->best_seconds() > 0) {
    scheduler_->report(task, searches_[task]->best_seconds(), 0);
  }
  return {};
}

double TuneSession::at_reference(double seconds, double calibration_s) {
  if (reference_s_ <= 0) reference_s_ = calibration_s;
  return measure::without_drift(seconds, calibration_s, reference_s_);
}

double TuneSession::elapsed_s() const { return seconds_since(start_); }

double TuneSession::remaining_s() const {
  return options_.budget_s > 0 ? options_.budget_s - elapsed_s() : kInfinity;
}

std::string TuneSession::search() {
  // Proposing and fitting stay off the cores of the measured code. Where that fails, samples in
  // which it waited are rejected all the same.
  const runtime::ScopedAffinity all_cores;
  if (!exclusive_) (void)runtime::leave_cores(options_.measure.threads);
  if (learner_) learner_->update();
  // A session that goes on begins with what its records teach.
  if (learner_ && earlier_ > 0) learner_->wait();
  measure_defaults();
  expect();
  drop_losers();
  for (;;) {
    if (const auto reason = why_stop()) {
      give_up();
      flush();
      return *reason;
    }
    fill();
    if (measurer_->pending() == 0) break;
    collect(0.25);
  }
  flush();
  const bool enough = reached_limit_ || (options_.trials > 0 && trials_ >= options_.trials);
  return enough ? "trials" : "no more gain";
}

void TuneSession::give_up() {
  if (measurer_->pending() == 0) return;
  if (interrupted()) collect(kLastTrialSeconds);
  measurer_->cancel();
  pending_.clear();
}

std::optional<std::string> TuneSession::why_stop() const {
  if (interrupted()) return "an interrupt";
  if (elapsed_s() >= search_until_s_) return "budget";
  if (!database_error_.empty()) return "the database";
  if (lost_in_a_row_ >= kMostLost) return "the loss of its workers";
  if (disturbed_in_a_row_ >= kMostDisturbed) return "other work on the cores";
  return std::nullopt;
}

void TuneSession::measure_defaults() {
  std::vector<std::size_t> order;
  for (std::size_t t = 0; t < tasks(); ++t) {
    if (before_s_[t] <= 0) order.push_back(t);
  }
  for (const std::size_t t : order) submit(t, {spaces_[t]->preferred()}, kNoRound);
  while (measurer_->pending() > 0 && !why_stop()) collect(0.25);
  give_up();
  for (std::size_t t = 0; t < tasks(); ++t) {
    if (searches_[t]->best_seconds() > 0) scheduler_->report(t, searches_[t]->best_seconds(), 0);
  }
}

void TuneSession::expect() {
  if (!learner_ || why_stop()) return;
  const auto begin = std::chrono::steady_clock::now();
  Rng rng(options_.seed);
  for (std::size_t t = 0; t < tasks() && !why_stop(); ++t) {
    const std::uint64_t seed = rng.next();
    // Where an earlier session had a round the records say more.
    const bool fresh = static_cast<double>(searches_[t]->replayed()) < kRoundLeast;
    if (fresh && !scheduler_->stopped(t)) {
      scheduler_->set_expectation(t, searches_[t]->expected_share(seed));
    }
  }
  times_.search += seconds_since(begin);
}

bool TuneSession::submit(std::size_t task, const std::vector<space::Candidate>& candidates,
                         std::size_t round) {
  std::vector<measure::Trial> trials;
  for (const space::Candidate& c : candidates) {
    const Result<schedule::Schedule> steps = spaces_[task]->schedule(c);
    if (!steps) {
      const search::TrialResult refused{c, measure::Outcome::kInvalidStatic, 0};
      searches_[task]->observe({&refused, 1});
      continue;
    }
    trials.push_back(make_trial({task, round, c, *steps, 0}));
  }
  if (trials.empty()) return false;
  if (round != kNoRound) rounds_[round].left = trials.size();
  last_task_ = task;
  measurer_->submit(std::move(trials));
  return true;
}

void TuneSession::submit_again(Pending pending) {
  measurer_->submit({make_trial(std::move(pending))});
}

measure::Trial TuneSession::make_trial(Pending pending) {
  measure::Trial trial;
  trial.id = next_id_++;
  trial.task = problem_.tasks[pending.task].task.key;
  trial.steps = pending.steps;
  trial.incumbent_s = searches_[pending.task]->best_seconds();
  trial.final = pending.round == kNoRound || options_.record_space;
  pending_[trial.id] = std::move(pending);
  return trial;
}

std::size_t TuneSession::round_size(std::size_t task) const {
  if (options_.batch > 0) return options_.batch;
  // A trial takes some samples of a call at least, and what building costs.
  const double trial_s = 0.03 + 5 * searches_[task]->best_seconds();
  double n = kRoundSeconds / trial_s;
  // Within half of what is left every task should have had a round.
  double live = 0;
  for (std::size_t t = 0; t < tasks(); ++t) live += scheduler_->stopped(t) ? 0 : 1;
  if (options_.trials > 0) {
    n = std::min(n, static_cast<double>(options_.trials - trials_) / (2 * std::max(1.0, live)));
  }
  const auto taken = static_cast<double>(trials_ - earlier_);
  if (options_.budget_s > 0 && taken > 0) {
    const double left = (search_until_s_ - elapsed_s()) * taken / std::max(0.1, times_.waiting);
    n = std::min(n, left / (2 * std::max(1.0, live)));
  }
  const double least = searches_[task]->believes_global() ? kRoundLeastTrained : kRoundLeast;
  return static_cast<std::size_t>(std::clamp(n, least, kRoundMost));
}

std::size_t TuneSession::trials_left(std::size_t task) const {
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  if (options_.trials > 0) {
    left = options_.trials - trials_ - static_cast<std::int64_t>(measurer_->pending());
  }
  if (options_.trials_per_task > 0) {
    const auto in_flight = std::count_if(pending_.begin(), pending_.end(),
                                         [&](const auto& p) { return p.second.task == task; });
    const std::int64_t spent = searches_[task]->replayed() + ended_[task];
    left = std::min(left, options_.trials_per_task - spent - in_flight);
  }
  return static_cast<std::size_t>(std::max<std::int64_t>(0, left));
}

void TuneSession::fill() {
  if (exclusive_ && measurer_->pending() > 0) return;
  const auto begin = std::chrono::steady_clock::now();
  if (learner_) {
    learner_->update();
    const std::string error = learner_->state().last_error;
    if (!error.empty() && !std::exchange(noted_error_, true)) {
      note(error + "; the search goes on without what the cost model cannot tell");
    }
  }
  // The next round is proposed while the last third of this one is measured.
  while (measurer_->pending() < std::max<std::size_t>(round_size(last_task_) / 3, 4)) {
    if (options_.trials > 0 &&
        trials_ + static_cast<std::int64_t>(measurer_->pending()) >= options_.trials) {
      break;
    }
    const std::optional<std::size_t> task = scheduler_->next();
    if (!task) break;
    const std::size_t n = std::min(round_size(*task), trials_left(*task));
    if (n == 0) {
      reached_limit_ = true;
      scheduler_->stop(*task);
      continue;
    }
    const std::vector<space::Candidate> candidates = searches_[*task]->propose(n);
    rounds_.push_back({*task, 0, 0});
    if (!submit(*task, candidates, rounds_.size() - 1)) {
      scheduler_->report(*task, searches_[*task]->best_seconds(), 0);
      scheduler_->stop(*task);
    }
  }
  times_.search += seconds_since(begin);
}

void TuneSession::collect(double timeout_s) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<measure::Measurement> done = measurer_->collect(timeout_s);
  times_.waiting += seconds_since(begin);
  for (const measure::Measurement& m : done) take(m);
  ++polls_;
  if (measurer_->machine().busy) ++busy_polls_;
  if (elapsed_s() - last_flush_s_ > 1) flush();
  report_progress(TuneProgress::Phase::kSearch, last_task_);
}

void TuneSession::take(const measure::Measurement& m) {
  const auto it = pending_.find(m.id);
  if (it == pending_.end()) return;
  const Pending p = std::move(it->second);
  pending_.erase(it);
  times_.build += m.build_ms / 1000;
  times_.run += m.run_ms / 1000;
  if (measure::is_timed(m.outcome) && m.disturbed) {
    if (!take_disturbed(p, m)) end_trial(p);
    return;
  }
  disturbed_in_a_row_ = 0;
  search::TrialResult result{p.candidate, m.outcome, 0};
  if (measure::is_timed(m.outcome)) {
    result.seconds = at_reference(m.seconds(), m.calibration_s);
  }
  lost_in_a_row_ = m.outcome == measure::Outcome::kWorkerLost ? lost_in_a_row_ + 1 : 0;
  searches_[p.task]->observe({&result, 1});
  if (m.outcome == measure::Outcome::kCompilerBug) note(m.reason);
  if (p.round == kNoRound && m.outcome == measure::Outcome::kOk) before_s_[p.task] = result.seconds;
  store(problem_.tasks[p.task].task.key, spaces_[p.task]->to_text(p.candidate),
        schedule::to_text(p.steps), m, p.round == kNoRound ? "default" : options_.policy);
  end_trial(p);
}

bool TuneSession::take_disturbed(const Pending& pending, const measure::Measurement& m) {
  ++disturbed_;
  ++disturbed_in_a_row_;
  if (pending.round == kNoRound) {
    // Its calibration was disturbed as well: the reference of the session must not come from it.
    before_s_[pending.task] =
        reference_s_ > 0 ? measure::without_drift(m.seconds(), m.calibration_s, reference_s_)
                         : m.seconds();
  }
  if (pending.disturbed >= kRepeats) return false;
  Pending again = pending;
  ++again.disturbed;
  submit_again(std::move(again));
  return true;
}

void TuneSession::end_trial(const Pending& p) {
  last_task_ = p.task;
  ++trials_;
  ++ended_[p.task];
  if (p.round == kNoRound) return;
  Round& round = rounds_[p.round];
  ++round.trials;
  if (--round.left == 0) finish_round(round);
}

void TuneSession::finish_round(const Round& round) {
  scheduler_->set_promise(round.task, searches_[round.task]->promise());
  if (!searches_[round.task]->believes_global()) scheduler_->set_expectation(round.task, 1);
  scheduler_->report(round.task, searches_[round.task]->best_seconds(), round.trials);
  if (searches_[round.task]->exhausted()) scheduler_->stop(round.task);
  drop_losers();
}

void TuneSession::drop_losers() {
  const std::vector<double> best = best_seconds();
  std::set<std::size_t> needed;  // by an option that may still win, or by all
  std::set<std::size_t> losing;
  for (const TaskUse& use : problem_.base) needed.insert(use.task);
  for (const TuneChoice& c : problem_.choices) {
    double cheapest = kInfinity;
    for (const TuneOption& o : c.options) cheapest = std::min(cheapest, cost(o.uses, best));
    for (const TuneOption& o : c.options) {
      std::int64_t trials = std::numeric_limits<std::int64_t>::max();
      for (const TaskUse& use : o.uses) {
        trials = std::min(trials, searches_[use.task]->trials());
      }
      const bool lost = trials > 0 && cost(o.uses, best) > losing_factor(trials) * cheapest;
      for (const TaskUse& use : o.uses) (lost ? losing : needed).insert(use.task);
    }
  }
  for (const std::size_t t : losing) {
    if (!needed.contains(t)) scheduler_->stop(t);
  }
}

void TuneSession::store(const std::string& key, const std::string& candidate,
                        const std::string& schedule, const measure::Measurement& m,
                        const std::string& policy) {
  if (!store_) return;
  record::Record r = record_of(m, schedule, measurer_->machine());
  r.session = session_;
  r.task = key;
  r.target = target_text_;
  r.threads = options_.measure.threads;
  r.candidate = candidate;
  r.policy = policy;
  r.seed = options_.seed;
  r.trial = trials_ + 1;
  unsaved_.push_back(std::move(r));
}

void TuneSession::flush() {
  last_flush_s_ = elapsed_s();
  if (!store_ || unsaved_.empty()) return;
  const Result<void> done = store_->append(unsaved_);
  if (done) {
    unsaved_.clear();
  } else {
    database_error_ = fmt::format("database {}: {}", options_.database, done.error().message);
  }
}

std::vector<Finalist> TuneSession::finals(std::size_t task, bool side_by_side) {
  const space::Space& space = *spaces_[task];
  const space::Candidate preferred = space.preferred();
  std::vector<Finalist> finalists;
  std::vector<measure::Trial> trials;
  const auto add = [&](const space::Candidate& c, double seconds) {
    const Result<schedule::Schedule> steps = space.schedule(c);
    if (!steps || seconds <= 0) return;
    finalists.push_back({space.to_text(c), schedule::to_text(*steps), seconds, c == preferred});
    trials.push_back({trials.size(), problem_.tasks[task].task.key, *steps, 0, true});
  };
  add(preferred, before_s_[task]);
  for (const search::Observation& o : searches_[task]->best(kFinalists)) {
    if (o.candidate == preferred) continue;
    if (o.seconds > kFinalistFactor * searches_[task]->best_seconds()) continue;
    add(o.candidate, o.seconds);
  }
  if (side_by_side && finalists.size() > 1) {
    for (const measure::Measurement& m : compare(trials)) {
      Finalist& f = finalists[m.id];
      // A lost worker says nothing about the candidate.
      if (m.outcome == measure::Outcome::kWorkerLost) continue;
      const bool timed = m.outcome == measure::Outcome::kOk;
      // Shared with other work it is too long: what the search measured may be nearer.
      const bool disturbed = timed && m.disturbed;
      const double speed =
          m.calibration_s > 0 && reference_s_ > 0 ? m.calibration_s / reference_s_ : 1;
      f.seconds = disturbed ? std::min(f.seconds * speed, m.seconds())
                  : timed   ? m.seconds()
                            : kInfinity;
      if (f.is_default && timed) before_s_[task] = f.seconds;
      if (disturbed) continue;
      store(problem_.tasks[task].task.key, f.candidate, f.schedule, m, kFinal);
    }
    flush();
  }
  std::erase_if(finalists, [](const Finalist& f) { return !std::isfinite(f.seconds); });
  std::stable_sort(finalists.begin(), finalists.end(),
                   [](const Finalist& a, const Finalist& b) { return a.seconds < b.seconds; });
  return finalists;
}

std::vector<measure::Measurement> TuneSession::compare(const std::vector<measure::Trial>& trials) {
  for (int repeats = 0;; ++repeats) {
    std::vector<measure::Measurement> compared = measurer_->compare(trials);
    const auto disturbed = std::count_if(
        compared.begin(), compared.end(),
        [](const measure::Measurement& m) { return measure::is_timed(m.outcome) && m.disturbed; });
    disturbed_ += disturbed;
    if (disturbed == 0 || repeats == 1 || interrupted() || remaining_s() <= 0) return compared;
  }
}

void TuneSession::end(TuneState state) {
  flush();
  if (learner_) {
    const search::LearnerState learnt = learner_->state();
    times_.model = learnt.fit_seconds;
    if (learnt.tasks_without_global > 0) {
      note(
          fmt::format("the pretrained model was left aside on {} of {} tasks, where it ordered "
                      "candidates worse than what was measured did",
                      learnt.tasks_without_global, learnt.tasks));
    }
  }
  if (!store_) return;
  const Result<void> ended =
      store_->end_session(session_, state == TuneState::kInterrupted ? "interrupted" : "done");
  if (!ended && database_error_.empty()) {
    database_error_ = fmt::format("database {}: {}", options_.database, ended.error().message);
  }
}

double TuneSession::cost(const std::vector<TaskUse>& uses, const std::vector<double>& seconds) {
  double sum = 0;
  for (const TaskUse& use : uses) {
    const double s = seconds[use.task];
    if (!(s > 0)) return kInfinity;
    sum += s * use.count;
  }
  return sum;
}

std::vector<double> TuneSession::best_seconds() const {
  std::vector<double> out;
  for (const auto& s : searches_) out.push_back(s->best_seconds());
  return out;
}

std::vector<std::size_t> TuneSession::choose(const std::vector<double>& seconds) const {
  std::vector<std::size_t> out;
  for (const TuneChoice& c : problem_.choices) {
    std::size_t best = c.preferred;
    for (std::size_t i = 0; i < c.options.size(); ++i) {
      if (cost(c.options[i].uses, seconds) < cost(c.options[best].uses, seconds)) best = i;
    }
    out.push_back(best);
  }
  return out;
}

double TuneSession::total(const std::vector<double>& seconds,
                          const std::vector<std::size_t>& options) const {
  double sum = cost(problem_.base, seconds);
  for (std::size_t i = 0; i < problem_.choices.size(); ++i) {
    sum += cost(problem_.choices[i].options[options[i]].uses, seconds);
  }
  return sum;
}

void TuneSession::report_progress(TuneProgress::Phase phase, std::size_t task, bool force) {
  if (!callbacks_.progress || (!force && elapsed_s() - last_progress_s_ < 0.2)) return;
  last_progress_s_ = elapsed_s();
  TuneProgress p;
  p.phase = phase;
  const TuneTask& t = problem_.tasks[task];
  p.task = t.algorithm.empty() ? t.task.name : t.task.name + " " + t.algorithm;
  p.tasks = tasks();
  for (std::size_t i = 0; i < tasks(); ++i) {
    p.live_tasks += scheduler_->stopped(i) ? 0 : 1;
    p.failures += searches_[i]->failures();
  }
  p.trials = trials_;
  p.best_s = searches_[task]->best_seconds();
  std::vector<std::size_t> preferred;
  for (const TuneChoice& c : problem_.choices) preferred.push_back(c.preferred);
  p.before_s = total(before_s_, preferred);
  const std::vector<double> best = best_seconds();
  p.after_s = total(best, choose(best));
  if (!std::isfinite(p.before_s)) p.before_s = 0;
  if (!std::isfinite(p.after_s)) p.after_s = 0;
  if (p.before_s == 0 && phase == TuneProgress::Phase::kSearch) {
    p.phase = TuneProgress::Phase::kDefaults;
  }
  p.elapsed_s = elapsed_s();
  const double rate = p.elapsed_s > 0 ? static_cast<double>(trials_ - earlier_) / p.elapsed_s : 0;
  if (options_.budget_s > 0) {
    p.remaining_s = std::max(0.0, remaining_s());
  } else if (options_.trials > 0 && rate > 0) {
    p.remaining_s = static_cast<double>(options_.trials - trials_) / rate;
  }
  if (phase == TuneProgress::Phase::kSearch && p.after_s > 0) {
    const auto more = static_cast<std::int64_t>(rate * p.remaining_s);
    const double gain = scheduler_->expected_gain(std::max<std::int64_t>(more, 0));
    // The sum counts alternatives too; what they gain is a share of what is used.
    const double whole = problem_.subjects.size() > 1 ? scheduler_->objective() : p.after_s;
    if (std::isfinite(gain)) p.expected_gain = std::clamp(gain / whole, 0.0, 1.0);
  }
  p.busy = measurer_->machine().busy;
  callbacks_.progress(p);
}

TaskReport TuneSession::describe(std::size_t task) const {
  const TuneTask& t = problem_.tasks[task];
  TaskReport r;
  r.key = t.task.key;
  r.name = t.task.name;
  r.algorithm = t.algorithm;
  r.tuned = is_tuned(task);
  r.before_s = before_s_[task];
  r.after_s = r.best_s = searches_[task]->best_seconds();
  r.session_best_s = searches_[task]->session_best_seconds();
  r.flops = t.task.flops;
  r.trials = searches_[task]->trials();
  r.earlier = searches_[task]->replayed();
  const auto& outcomes = searches_[task]->outcomes();
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const auto outcome = static_cast<measure::Outcome>(i);
    if (outcomes[i] > 0 && !measure::is_timed(outcome)) {
      r.failures[measure::to_text(outcome)] = outcomes[i];
    }
  }
  return r;
}

void TuneSession::describe(TuneResult* result) const {
  std::vector<std::size_t> preferred;
  for (const TuneChoice& c : problem_.choices) preferred.push_back(c.preferred);
  const std::vector<double> best = best_seconds();
  std::vector<double> of_session;
  for (std::size_t t = 0; t < tasks(); ++t) {
    const double seconds = searches_[t]->session_best_seconds();
    of_session.push_back(seconds > 0 ? seconds : best[t]);
  }
  const auto known = [](double sum) { return std::isfinite(sum) ? sum : 0; };
  result->sum_default_s = known(total(before_s_, preferred));
  result->sum_best_s = known(total(best, choose(best)));
  result->sum_session_s = known(total(of_session, choose(of_session)));
  result->session = session_;
  result->trials = trials_ - earlier_;
  result->earlier = earlier_;
  result->disturbed = disturbed_;
  result->database_error = database_error_;
  result->busy = polls_ > 0 && busy_polls_ * 4 > polls_;
  result->times.build = times_.build;
  result->times.run = times_.run;
  result->times.model = times_.model;
  result->times.search = times_.search;
  result->times.waiting = times_.waiting;
}

}  // namespace tessera::driver
