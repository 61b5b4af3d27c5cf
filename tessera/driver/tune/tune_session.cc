#include "tessera/driver/tune/tune_session.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/driver/tune/cold_tasks.h"
#include "tessera/driver/tune/tune_costs.h"
#include "tessera/runtime/affinity.h"
#include "tessera/support/hash.h"
#include "tessera/target/cpus.h"

namespace tessera::driver {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kNoRound = std::numeric_limits<std::uint64_t>::max();

// Of a budget: what is kept for the finals and the whole model.
constexpr double kFinishShare = 0.18, kFinishMostSeconds = 150;
constexpr double kFinishMostShare = 0.5;  // ... of a model that takes long to build
// To load and check a whole model, and how often it runs to be timed.
constexpr double kWholeModelLeastSeconds = 0.5, kWholeModelRuns = 40;
// Rounds are as long as this many seconds of trials, within kRoundLeast and kRoundMost.
constexpr double kRoundSeconds = 2;
constexpr double kRoundLeast = 8, kRoundMost = 64;
// A trial on a device is short, and many builders wait for the next round.
constexpr double kRoundMostOnDevice = 128;
// ... and of a task whose candidates a trained model can tell apart before any is measured.
constexpr double kRoundLeastTrained = 2;
// A candidate whose time was shared with other work is measured again this often.
constexpr int kRepeats = 3;
constexpr const char* kFinal = "final";  // policy of records taken side by side at the end
// Side by side: this many at most, none slower than the best by more than the factor.
constexpr std::size_t kFinalists = 5;
constexpr double kFinalistFactor = 1.1;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string digest_of(const std::string& schedule) { return to_hex(hash_bytes(schedule)); }

Result<void> check_tasks(const TuneProblem& problem, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const bool known = std::any_of(problem.tasks.begin(), problem.tasks.end(),
                                   [&](const TuneTask& t) { return t.task.key == key; });
    if (known) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "there is no task {}; `tessera tasks` lists them", key);
  }
  return {};
}

}  // namespace

TuneSession::TuneSession(const TuneOptions& options, const TuneCallbacks& callbacks,
                         TuneProblem problem, Clock::time_point start)
    : options_(options),
      callbacks_(callbacks),
      problem_(std::move(problem)),
      cold_(options.measure.cold_caches ? std::vector<bool>(problem_.tasks.size(), true)
                                        : cold_tasks(problem_, options.target)),
      start_(start),
      exclusive_(!options.target.is_gpu() && options.measure.threads >= target::usable_cpus()),
      before_s_(problem_.tasks.size(), 0),
      ended_(problem_.tasks.size(), 0),
      reasons_(problem_.tasks.size()),
      default_failed_(problem_.tasks.size(), false) {}

Result<std::unique_ptr<TuneSession>> TuneSession::start(const TuneOptions& options,
                                                        const TuneCallbacks& callbacks,
                                                        TuneProblem problem,
                                                        Clock::time_point start) {
  std::unique_ptr<TuneSession> s(new TuneSession(options, callbacks, std::move(problem), start));
  TESSERA_DO(s->prepare());
  return s;
}

Result<void> TuneSession::prepare() {
  TESSERA_DO(check_tasks(problem_, options_.tasks));
  // Workers are forked, so they come before the learner's threads.
  std::vector<measure::MeasuredTask> measured;
  std::vector<LoopTask> loop_tasks;
  std::vector<const task::Task*> known;
  for (std::size_t t = 0; t < tasks(); ++t) {
    const task::Task& task = problem_.tasks[t].task;
    measured.push_back({task.key, task.dag, cold_[t]});
    loop_tasks.push_back(
        {task.key, cold_[t], !options_.measure.check_results, options_.measure.evicted_bytes});
    known.push_back(&task);
  }
  const auto& start_measurer = options_.start_measurer ? options_.start_measurer : start_workers;
  TESSERA_TRY(std::unique_ptr<measure::Measurer> measurer,
              start_measurer(std::move(measured), options_.target, options_.measure));
  TESSERA_TRY(records_,
              TrialRecords::open({options_.database, problem_.subjects, options_.target,
                                  options_.measure.threads, options_.seed, options_.command},
                                 known));
  loop_ =
      std::make_unique<TrialLoop>(std::move(measurer), std::move(loop_tasks), kRepeats, &records_,
                                  [this](const Attempt& a, const measure::Measurement& m,
                                         bool disturbed) { return take(a, m, disturbed); });
  TESSERA_TRY(searches_, TuneSearches::make(options_, problem_, records_, exclusive_,
                                            [this](const std::string& line) { note(line); }));
  for (std::size_t t = 0; t < tasks(); ++t) TESSERA_DO(resume(t));
  return {};
}

Result<void> TuneSession::resume(std::size_t task) {
  const space::Space& space = searches_->space(task);
  const std::string preferred = space.to_text(space.preferred());
  const auto replay = [&](const record::Record& r) {
    // Times with the constants in the cache and without are not times of the same thing, nor are
    // those where more was evicted.
    if (was_cold(r) != cold_[task]) return;
    if (cold_[task] && evicted_bytes(r) != options_.measure.evicted_bytes) return;
    // A default whose outputs nobody compared is measured again where they are.
    if (was_unchecked(r) && options_.measure.check_results && searches_->is_tuned(task)) return;
    const Result<space::Candidate> candidate = space.parse(r.candidate);
    if (!candidate || !space.check(*candidate)) return;
    // What a candidate means may have changed since.
    const Result<schedule::Schedule> steps = space.schedule(*candidate);
    if (!steps || digest_of(schedule::to_text(*steps)) != r.schedule_digest) return;
    record::Record known = r;
    known.seconds = at_reference(r.seconds, r.calibration_s);
    const bool timed = known.seconds > 0 && r.outcome == "ok";
    if (r.candidate == preferred && timed) before_s_[task] = known.seconds;
    // Finals repeat candidates that have records of their own.
    if (r.policy == kFinal || !searches_->task(task).replay(known)) return;
    if (!timed && r.outcome != to_text(measure::Outcome::kCensored)) {
      note_failure(task, r.outcome, r.reason);
      if (r.candidate == preferred) default_failed_[task] = true;
    }
    ++earlier_;
    ++trials_;
  };
  TESSERA_DO(records_.visit(problem_.tasks[task].task.key, replay));
  if (searches_->task(task).best_seconds() > 0) searches_->report(task, 0);
  searches_->stop_if_hopeless(task);
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

double TuneSession::search_until_s() const {
  const double budget = options_.budget_s;
  if (until_s_) return *until_s_;
  if (budget <= 0) return kInfinity;
  const double share = std::min(kFinishShare * budget, kFinishMostSeconds);
  return budget - std::max(share, std::min(whole_model_s(), kFinishMostShare * budget));
}

double TuneSession::whole_model_s() const {
  // Each task is built for the untuned and the tuned model, by the cores side by side.
  const auto taken = static_cast<double>(std::max<std::int64_t>(1, trials_ - earlier_));
  const double build_s = loop_->times().build / taken;
  const double built = 2 * build_s * static_cast<double>(tasks()) / target::usable_cpus();
  const double sum = total_cost(problem_, before_s_, preferred_options(problem_));
  return kWholeModelLeastSeconds + built + (std::isfinite(sum) ? kWholeModelRuns * sum : 0);
}

std::string TuneSession::search(std::optional<double> until_s) {
  until_s_ = until_s;
  // Proposing and fitting stay off the cores of the measured code. Where that fails, samples in
  // which it waited are rejected all the same.
  const runtime::ScopedAffinity all_cores;
  if (!exclusive_) (void)runtime::leave_cores(options_.measure.threads);
  // A session that goes on begins with what its records teach.
  searches_->update(/*wait=*/earlier_ > 0);
  measure_defaults();
  const Clock::time_point begin = Clock::now();
  // Where defaults are all there is, nobody asks what else promises most.
  if (options_.trials_per_task != 1)
    searches_->expect(kRoundLeast, [this] { return why_stop().has_value(); });
  searching_s_ += seconds_since(begin);
  searches_->drop_losers();
  for (;;) {
    if (const auto reason = why_stop()) {
      loop_->give_up(interrupted());
      records_.flush();
      return *reason;
    }
    fill();
    if (loop_->pending() == 0) break;
    collect(0.25);
  }
  records_.flush();
  const bool enough = reached_limit_ || (options_.trials > 0 && trials_ >= options_.trials);
  return enough ? "trials" : "no more gain";
}

std::optional<std::string> TuneSession::why_stop() const {
  if (interrupted()) return "an interrupt";
  if (elapsed_s() >= search_until_s()) return "budget";
  if (const auto trouble = loop_->trouble()) return trouble->what;
  return std::nullopt;
}

void TuneSession::measure_defaults() {
  for (std::size_t t = 0; t < tasks(); ++t) {
    if (before_s_[t] <= 0 && !default_failed_[t])
      submit(t, {searches_->space(t).preferred()}, kNoRound);
  }
  while (loop_->pending() > 0 && !why_stop()) collect(0.25);
  loop_->give_up(interrupted());
  for (std::size_t t = 0; t < tasks(); ++t) {
    if (searches_->task(t).best_seconds() > 0) searches_->report(t, 0);
  }
}

bool TuneSession::submit(std::size_t task, const std::vector<space::Candidate>& candidates,
                         std::uint64_t round) {
  const space::Space& space = searches_->space(task);
  std::vector<Attempt> attempts;
  for (const space::Candidate& c : candidates) {
    const Result<schedule::Schedule> steps = space.schedule(c);
    if (!steps) {
      const search::TrialResult refused{c, measure::Outcome::kInvalidStatic, 0};
      searches_->task(task).observe({&refused, 1});
      continue;
    }
    const bool is_default = round == kNoRound;
    attempts.push_back({task, c, *steps, space.to_text(c), is_default ? "default" : options_.policy,
                        searches_->task(task).best_seconds(), is_default || options_.record_space,
                        round});
  }
  if (attempts.empty()) return false;
  if (round != kNoRound) rounds_[round].left = attempts.size();
  last_task_ = task;
  loop_->submit(std::move(attempts));
  return true;
}

std::size_t TuneSession::round_size(std::size_t task) const {
  if (options_.batch > 0) return options_.batch;
  // A trial takes some samples of a call at least, and what building costs.
  const bool on_device = options_.target.is_gpu();
  const double trial_s = (on_device ? 0.01 : 0.03) + 5 * searches_->task(task).best_seconds();
  double n = kRoundSeconds / trial_s;
  // Within half of what is left every task should have had a round.
  const double live = std::max(1.0, static_cast<double>(searches_->live()));
  if (options_.trials > 0)
    n = std::min(n, static_cast<double>(options_.trials - trials_) / (2 * live));
  const auto taken = static_cast<double>(trials_ - earlier_);
  if (options_.budget_s > 0 && taken > 0) {
    const double waited_s = std::max(0.1, loop_->times().waiting);
    n = std::min(n, (search_until_s() - elapsed_s()) * taken / waited_s / (2 * live));
  }
  const bool trained = searches_->task(task).believes_global();
  return static_cast<std::size_t>(std::clamp(n, trained ? kRoundLeastTrained : kRoundLeast,
                                             on_device ? kRoundMostOnDevice : kRoundMost));
}

std::size_t TuneSession::trials_left(std::size_t task) const {
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  if (options_.trials > 0)
    left = options_.trials - trials_ - static_cast<std::int64_t>(loop_->pending());
  if (options_.trials_per_task > 0) {
    const std::int64_t spent = searches_->task(task).replayed() + ended_[task];
    left = std::min(left, options_.trials_per_task - spent -
                              static_cast<std::int64_t>(loop_->pending_of(task)));
  }
  return static_cast<std::size_t>(std::max<std::int64_t>(0, left));
}

void TuneSession::fill() {
  if (exclusive_ && loop_->pending() > 0) return;
  const Clock::time_point begin = Clock::now();
  searches_->update();
  // The next round is proposed while the last third of this one is measured.
  // Many builders work for a device: each has a candidate, and another one waits.
  const std::size_t least =
      options_.target.is_gpu() ? 2 * static_cast<std::size_t>(target::usable_cpus()) : 4;
  while (loop_->pending() < std::max<std::size_t>(round_size(last_task_) / 3, least)) {
    const bool enough = options_.trials > 0 &&
                        trials_ + static_cast<std::int64_t>(loop_->pending()) >= options_.trials;
    const std::optional<std::size_t> task = enough ? std::nullopt : searches_->next();
    if (!task) break;
    const std::size_t n = std::min(round_size(*task), trials_left(*task));
    if (n == 0) {
      reached_limit_ = true;
      searches_->stop(*task);
      continue;
    }
    const std::vector<space::Candidate> candidates = searches_->task(*task).propose(n);
    rounds_.push_back({*task, 0, 0});
    if (!submit(*task, candidates, rounds_.size() - 1)) {
      searches_->report(*task, 0);
      searches_->stop(*task);
    }
  }
  searching_s_ += seconds_since(begin);
}

void TuneSession::collect(double timeout_s) {
  loop_->collect(timeout_s);
  report_progress(TuneProgress::Phase::kSearch, last_task_);
}

std::optional<std::int64_t> TuneSession::take(const Attempt& a, const measure::Measurement& m,
                                              bool disturbed) {
  const bool is_default = a.group == kNoRound;
  if (disturbed) {
    // Its calibration was disturbed as well: the reference of the session must not come from it.
    const double known_s = reference_s_ > 0 ? m.calibration_s : 0;
    if (is_default) before_s_[a.task] = measure::without_drift(m.seconds(), known_s, reference_s_);
    end_trial(a);
    return std::nullopt;
  }
  search::TrialResult result{a.candidate, m.outcome, 0};
  if (measure::is_timed(m.outcome)) result.seconds = at_reference(m.seconds(), m.calibration_s);
  searches_->task(a.task).observe({&result, 1});
  if (m.outcome == measure::Outcome::kCompilerBug) note(m.reason);
  if (!measure::is_timed(m.outcome)) note_failure(a.task, measure::to_text(m.outcome), m.reason);
  if (is_default && m.outcome == measure::Outcome::kOk) before_s_[a.task] = result.seconds;
  const std::int64_t number = trials_ + 1;
  end_trial(a);
  return number;
}

void TuneSession::note_failure(std::size_t task, const std::string& outcome,
                               const std::string& reason) {
  ++reasons_[task][reason.empty() ? outcome : outcome + ": " + reason];
}

void TuneSession::end_trial(const Attempt& a) {
  last_task_ = a.task;
  ++trials_;
  ++ended_[a.task];
  if (a.group == kNoRound) return;
  Round& round = rounds_[a.group];
  ++round.trials;
  if (--round.left > 0) return;
  searches_->report(round.task, round.trials);
  searches_->drop_losers();
}

std::vector<Finalist> TuneSession::finals(std::size_t task, bool side_by_side) {
  const space::Space& space = searches_->space(task);
  const search::TaskSearch& search = searches_->task(task);
  const space::Candidate preferred = space.preferred();
  std::vector<Finalist> finalists;
  std::vector<Attempt> attempts;
  const auto add = [&](const space::Candidate& c, double seconds) {
    const Result<schedule::Schedule> steps = space.schedule(c);
    if (!steps || seconds <= 0) return;
    finalists.push_back({space.to_text(c), schedule::to_text(*steps), seconds, c == preferred});
    attempts.push_back({task, c, *steps, finalists.back().candidate, kFinal, 0, true, kNoRound});
  };
  add(preferred, before_s_[task]);
  for (const search::Observation& o : search.best(kFinalists)) {
    if (o.candidate == preferred) continue;
    if (o.seconds > kFinalistFactor * search.best_seconds()) continue;
    add(o.candidate, o.seconds);
  }
  if (side_by_side && finalists.size() > 1) {
    const auto again = [this] { return !interrupted() && remaining_s() > 0; };
    for (const measure::Measurement& m : loop_->compare(attempts, again)) {
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
      if (!disturbed) loop_->keep(attempts[m.id], m, trials_ + 1);
    }
    records_.flush();
  }
  std::erase_if(finalists, [](const Finalist& f) { return !std::isfinite(f.seconds); });
  std::stable_sort(finalists.begin(), finalists.end(),
                   [](const Finalist& a, const Finalist& b) { return a.seconds < b.seconds; });
  return finalists;
}

void TuneSession::end(TuneState state) {
  records_.flush();
  fitting_s_ = searches_->end();
  records_.end(state == TuneState::kInterrupted ? "interrupted" : "done");
}

}  // namespace tessera::driver
