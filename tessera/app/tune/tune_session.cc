#include "tessera/app/tune/tune_session.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/app/tune/cold_tasks.h"
#include "tessera/app/tune/tune_costs.h"
#include "tessera/app/tune/tune_pace.h"
#include "tessera/machine/runtime/affinity.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/clock.h"

namespace tessera::app {
namespace {

constexpr double kUnlimitedS = std::numeric_limits<double>::infinity();

// Of a budget: what is kept for the finals and the whole model.
constexpr double kFinishShare = 0.18, kFinishMostSeconds = 150;
constexpr double kFinishMostShare = 0.5;  // ... of a model that takes long to build
// To load and check a whole model, and how often it runs to be timed.
constexpr double kWholeModelLeastSeconds = 0.5, kWholeModelRuns = 40;
// Of a kernel, as long as none was built.
constexpr double kBuildSeconds = 0.04;
// Other work makes everything slower; more than this says something else.
constexpr double kMostSlowed = 3;
// What the end may take beyond the budget before it is left out.
constexpr double kOverrunSeconds = 1, kSessionOverrunShare = 0.05;
// Of the time for searching: within which defaults are measured before rounds begin, and a trained
// model is asked where these promise most.
constexpr double kDefaultsShare = 0.5, kExpectShare = 0.1;
// Rounds are as long as this many seconds of trials, within kRoundLeast and that of the pace.
constexpr double kRoundSeconds = 2;
constexpr double kRoundLeast = 8;
// ... and of a task whose candidates a trained model can tell apart before any is measured.
constexpr double kRoundLeastTrained = 2;
// Calibrations that tell how fast the machine is at the moment.
constexpr std::size_t kCalibrations = 9;
// A candidate whose time was shared with other work is measured again this often.
constexpr int kRepeats = 3;
// In place of times that are not believed: longer than any, so that what is measured again counts.
constexpr double kNotBelievedSeconds = 1e3;
// Policy of the records of defaults.
constexpr const char* kDefault = "default";
double overrun_of(double budget_s) {
  return std::max(kOverrunSeconds, kSessionOverrunShare * budget_s);
}

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

// Those of the same types are one kernel, but for their attributes.
std::size_t distinct_nodes(const graph::Graph& graph) {
  std::set<std::string> known;
  for (const graph::Node& node : graph.nodes) {
    std::string text = node.op->name;
    for (const graph::ValueId v : node.inputs)
      text += v == graph::kNoValue ? " -" : " " + to_text(graph.type(v));
    known.insert(std::move(text));
  }
  return known.size();
}

}  // namespace

TuneSession::TuneSession(const TuneOptions& options, const TuneCallbacks& callbacks,
                         TuneProblem problem, Clock::time_point start)
    : options_(options),
      callbacks_(callbacks),
      problem_(std::move(problem)),
      cold_(options.in_place              ? std::vector<bool>(problem_.tasks.size(), false)
            : options.measure.cold_caches ? std::vector<bool>(problem_.tasks.size(), true)
                                          : cold_tasks(problem_, options.target)),
      order_(heaviest_first(problem_)),
      start_(start),
      exclusive_(pace_of(options.target).on_processors &&
                 options.measure.threads >= target::usable_cpus()),
      before_s_(problem_.tasks.size(), 0),
      default_record_(problem_.tasks.size(), 0),
      defaults_s_(problem_.tasks.size()),
      before_now_(problem_.tasks.size(), false),
      timed_now_(problem_.tasks.size()),
      ended_(problem_.tasks.size(), 0),
      reported_(problem_.tasks.size(), 0),
      reasons_(problem_.tasks.size()),
      default_failed_(problem_.tasks.size(), false),
      left_aside_(problem_.tasks.size(), 0),
      compared_best_s_(problem_.tasks.size(), 0),
      gains_(problem_.tasks.size()),
      proposed_(problem_.tasks.size()),
      last_task_(order_.empty() ? 0 : order_.front()) {}

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
  if (in_place()) {
    model_key_ =
        placed_key(problem_.imported[0], problem_.subjects[0].compile, options_.contention);
    nodes_ = distinct_nodes(problem_.imported[0]);
  }
  for (std::size_t t = 0; t < tasks(); ++t) {
    const task::Task& task = problem_.tasks[t].task;
    measured.push_back({task.key, task.dag, cold_[t]});
    const bool feels_memory =
        cold_[t] || task.bytes > static_cast<double>(options_.target.l2_bytes);
    loop_tasks.push_back({task.key, cold_[t], !options_.measure.check_results,
                          options_.measure.evicted_bytes, feels_memory, model_key_,
                          options_.measure.contended});
    known.push_back(&task);
  }
  const auto& start_measurer = options_.start_measurer ? options_.start_measurer : start_workers;
  TESSERA_TRY(std::unique_ptr<measure::Measurer> measurer,
              start_measurer(std::move(measured), options_.target, options_.measure));
  exclusive_ = exclusive_ && !measurer->capacity().elsewhere;
  TESSERA_TRY(records_,
              TrialRecords::open({options_.database, problem_.subjects, options_.target,
                                  options_.measure.threads, options_.seed, options_.command,
                                  in_place() ? record::Subject::kInPlace : record::Subject::kKernel,
                                  options_.version},
                                 known));
  loop_ =
      std::make_unique<TrialLoop>(std::move(measurer), std::move(loop_tasks), kRepeats, &records_,
                                  [this](const Attempt& a, const measure::Measurement& m,
                                         bool disturbed) { return take(a, m, disturbed); });
  loop_->on_doubt([this](std::int64_t machine, const std::string& note_of_records) {
    distrust(machine, note_of_records);
  });
  TESSERA_TRY(searches_, TuneSearches::make(options_, problem_, records_, exclusive_,
                                            [this](const std::string& line) { note(line); }));
  return {};
}

double TuneSession::comparable(std::size_t task, double seconds, double calibration_s,
                               double default_s, std::int64_t machine) {
  if (!in_place()) return at_reference(seconds, calibration_s, machine);
  if (before_s_[task] <= 0) before_s_[task] = default_s;
  return measure::without_drift(seconds, default_s, before_s_[task]);
}

double TuneSession::at_reference(double seconds, double calibration_s, std::int64_t machine) {
  if (calibration_s <= 0) return seconds;
  // One that is slower than those around it was disturbed itself: it says nothing about the speed
  // of the machine, and dividing by it would make the candidate seem fast.
  std::deque<double>& known = calibrations_[machine];
  known.push_back(calibration_s);
  if (known.size() > kCalibrations) known.pop_front();
  std::vector<double> sorted(known.begin(), known.end());
  std::sort(sorted.begin(), sorted.end());
  const double usual_s = std::min(calibration_s, sorted[sorted.size() / 2]);
  if (reference_s_ <= 0) reference_s_ = usual_s;
  return measure::without_drift(seconds, usual_s, reference_s_);
}

double TuneSession::elapsed_s() const {
  return options_.elapsed_s ? options_.elapsed_s() : seconds_since(start_);
}

double TuneSession::remaining_s() const {
  return options_.budget_s > 0 ? options_.budget_s - elapsed_s() : kUnlimitedS;
}

double TuneSession::search_until_s() const {
  const double budget = options_.budget_s;
  if (until_s_) return *until_s_;
  if (budget <= 0) return kUnlimitedS;
  const double share = std::min(kFinishShare * budget, kFinishMostSeconds);
  const double most_s = kFinishMostShare * budget, whole_s = whole_model_s();
  // Nothing is kept for a whole model that takes too long in any case.
  const bool fits = whole_s < most_s + overrun_of(budget);
  return budget - std::max(share, fits ? std::min(whole_s + untuned_check_s(), most_s) : 0);
}

double TuneSession::whole_model_s() const {
  // Each kernel is built once for the untuned model and once more where its schedule changes, by
  // the cores side by side, which other work may slow down.
  const std::vector<double> best = best_seconds();
  double kernels = 0;
  const auto count = [&](const TaskUse& use) {
    if (problem_.subjects[use.subject].is_op) return;  // there is no whole
    const bool tuned = best[use.task] > 0 && best[use.task] < before_s_[use.task];
    kernels += tuned ? 2 : 1;
  };
  std::for_each(problem_.base.begin(), problem_.base.end(), count);
  for (const TunePoint& p : problem_.points)
    std::for_each(p.preferred().begin(), p.preferred().end(), count);
  if (kernels == 0) return 0;
  const double sum = total_cost(problem_, before_s_, preferred_values(problem_));
  return building_s(kernels) +
         slowed() * (kWholeModelLeastSeconds + (std::isfinite(sum) ? kWholeModelRuns * sum : 0));
}

double TuneSession::untuned_check_s() const {
  return nodes_ > 0 ? building_s(static_cast<double>(nodes_)) : 0;
}

double TuneSession::slowed() const {
  return opening_cpu_s_ > 0 ? std::clamp(opening_wall_s_ / opening_cpu_s_, 1.0, kMostSlowed) : 1;
}

double TuneSession::building_s(double kernels) const {
  const auto taken = static_cast<double>(trials_ - earlier_);
  const double build_s =
      taken > 0 && loop_->times().build > 0 ? loop_->times().build / taken : kBuildSeconds;
  return slowed() * kernels * build_s / target::usable_cpus();
}

bool TuneSession::has_room(double seconds) const {
  return remaining_s() + overrun_of(options_.budget_s) > seconds;
}

Result<std::string> TuneSession::search(std::optional<double> until_s) {
  until_s_ = until_s;
  // Proposing and fitting stay off the cores of the measured code. Where that fails, samples in
  // which it waited are rejected all the same.
  const runtime::ScopedAffinity all_cores;
  if (!exclusive_ && !loop_->capacity().elsewhere)
    (void)runtime::leave_cores(options_.measure.threads);
  Result<std::string> ended = run_rounds();
  // Those that were disturbed took as long.
  const auto taken = static_cast<double>(trials_ - earlier_ + loop_->disturbed());
  if (taken > 0) trial_s_ = waited_s_ / taken;
  return ended;
}

Result<std::string> TuneSession::run_rounds() {
  TESSERA_DO(measure_defaults());
  const Clock::time_point begin = Clock::now();
  // A session that goes on begins with what its records teach.
  searches_->update(/*wait=*/earlier_ > 0);
  // Where defaults are all there is, nobody asks what else promises most.
  const double expect_until_s = elapsed_s() + kExpectShare * (search_until_s() - elapsed_s());
  if (options_.trials_per_task != 1) {
    searches_->expect(kRoundLeast, order_,
                      [&] { return why_stop() || elapsed_s() > expect_until_s; });
  }
  searching_s_ += seconds_since(begin);
  searches_->drop_losers();
  for (;;) {
    if (const auto reason = why_stop()) {
      loop_->give_up(interrupted());
      records_.flush();
      return *reason;
    }
    TESSERA_DO(fill());
    if (loop_->pending() == 0) break;
    collect(0.25);
    confirm_fastest();
  }
  confirm_fastest();
  records_.flush();
  const bool enough = reached_limit_ || (options_.trials > 0 && trials_ >= options_.trials);
  return std::string(enough ? "trials" : "no more gain");
}

std::optional<std::string> TuneSession::why_stop() const {
  if (interrupted()) return "an interrupt";
  if (elapsed_s() >= search_until_s()) return "budget";
  if (const auto trouble = loop_->trouble()) return trouble->what;
  return std::nullopt;
}

Result<void> TuneSession::measure_defaults() {
  // The others are measured when their first round comes.
  const bool nothing_else = options_.trials_per_task == 1;
  const double until_s = nothing_else
                             ? search_until_s()
                             : elapsed_s() + kDefaultsShare * (search_until_s() - elapsed_s());
  const auto over = [&] { return why_stop() || elapsed_s() > until_s; };
  const auto ahead =
      static_cast<std::size_t>(std::max(8, 2 * target::usable_cpus())) * loop_->capacity().machines;
  for (const std::size_t t : order_) {
    if (over()) break;
    TESSERA_DO(open(t));
    if (wants_default(t)) submit(t, {searches_->space(t).preferred()}, kDefault, kNoRound);
    // Where the measured code has every core, spaces are made while nothing is timed.
    if (loop_->pending() < ahead) continue;
    while (loop_->pending() > (exclusive_ ? 0 : ahead / 2) && !over()) collect(0.25);
  }
  while (loop_->pending() > 0 && !over()) collect(0.25);
  // What is being measured is not given up for the rounds; at the end of the search it is.
  if (why_stop()) loop_->give_up(interrupted());
  for (std::size_t t = 0; t < tasks(); ++t) {
    if (searches_->is_open(t) && searches_->task(t).best_seconds() > 0) searches_->report(t, 0);
  }
  phase_ = TuneProgress::Phase::kSearch;
  return {};
}

bool TuneSession::submit(std::size_t task, const std::vector<decide::Candidate>& candidates,
                         const std::string& policy, std::uint64_t round) {
  const space::Space& space = searches_->space(task);
  std::vector<Attempt> attempts;
  for (const decide::Candidate& c : candidates) {
    const Result<schedule::Schedule> steps = space.schedule(c);
    if (!steps) {
      const search::TrialResult refused{c, measure::Outcome::kInvalidStatic, 0};
      searches_->task(task).observe({&refused, 1});
      continue;
    }
    attempts.push_back({task, c, *steps, space.to_text(c), policy,
                        searches_->task(task).best_seconds(),
                        policy == kDefault || options_.record_space, round});
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
  const double trial_s = pace_of(options_.target).trial_s + 5 * best_seconds(task);
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
  const bool trained = searches_->is_open(task) && searches_->task(task).believes_global();
  return static_cast<std::size_t>(std::clamp(n, trained ? kRoundLeastTrained : kRoundLeast,
                                             pace_of(options_.target).round_most));
}

std::size_t TuneSession::trials_left(std::size_t task) const {
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  if (options_.trials > 0)
    left = options_.trials - trials_ - static_cast<std::int64_t>(loop_->pending());
  if (options_.trials_per_task > 0) {
    const std::int64_t spent = earlier_of(task) + ended_[task];
    left = std::min(left, options_.trials_per_task - spent -
                              static_cast<std::int64_t>(loop_->pending_of(task)));
  }
  return static_cast<std::size_t>(std::max<std::int64_t>(0, left));
}

Result<void> TuneSession::fill() {
  if (exclusive_ && loop_->pending() > 0) return {};
  const Clock::time_point begin = Clock::now();
  searches_->update();
  // The next round is proposed while the last third of this one is measured.
  const std::size_t least = pace_of(options_.target).waiting, machines = loop_->capacity().machines;
  while (loop_->pending() < machines * std::max(round_size(last_task_) / 3, least)) {
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
    const bool is_new = !searches_->is_open(*task);
    TESSERA_DO(open(*task));
    // The first round of a task that had none is its default.
    const bool by_default = is_new && wants_default(*task);
    const std::vector<decide::Candidate> candidates =
        by_default ? std::vector{searches_->space(*task).preferred()}
                   : searches_->task(*task).propose(n);
    rounds_.push_back({*task, 0, 0});
    if (!submit(*task, candidates, by_default ? kDefault : options_.policy, rounds_.size() - 1)) {
      searches_->report(*task, 0);
      searches_->stop(*task);
    }
  }
  searching_s_ += seconds_since(begin);
  return {};
}

void TuneSession::collect(double timeout_s) {
  const double begin_s = elapsed_s();
  loop_->collect(timeout_s);
  waited_s_ += elapsed_s() - begin_s;
  report_progress(phase_, last_task_);
}

std::optional<std::int64_t> TuneSession::take(const Attempt& a, const measure::Measurement& m,
                                              bool disturbed) {
  const bool is_default = a.policy == kDefault;
  if (disturbed && !a.in_place) {
    // Its calibration was disturbed as well: the reference of the session must not come from it.
    const double known_s = reference_s_ > 0 ? m.calibration_s : 0;
    if (is_default) {
      before_s_[a.task] = measure::without_drift(m.seconds(), known_s, reference_s_);
      before_now_[a.task] = true;
    }
    end_trial(a);
    return std::nullopt;
  }
  search::TrialResult result{a.candidate, m.outcome, 0};
  if (measure::is_timed(m.outcome)) {
    result.seconds = comparable(a.task, m.seconds(), m.calibration_s, m.default_s, m.machine);
  }
  if (m.default_s > 0) defaults_s_[a.task].push_back(m.default_s);
  if (a.in_place && a.policy == kFinalPolicy) {
    const bool timed = m.outcome == measure::Outcome::kOk && m.default_s > 0;
    const bool lost = m.outcome == measure::Outcome::kWorkerLost;
    if (!lost)
      race_->observe(a.task, a.candidate,
                     timed ? std::optional(m.default_s / m.seconds()) : std::nullopt);
  } else if (a.in_place && a.incumbent_s > 0 && timed_now_[a.task].contains(a.text)) {
    // Timed once more: the mean of two says more than the luckier one. A policy may propose the
    // default while that is under way, too: then there is no first time.
    if (m.outcome == measure::Outcome::kOk)
      searches_->correct(a.task, a.candidate, (result.seconds + a.incumbent_s) / 2);
  } else {
    searches_->task(a.task).observe({&result, 1});
    if (m.machine != 0 && measure::is_timed(m.outcome))
      measured_by_[m.machine].push_back({a.task, a.candidate, a.text});
  }
  if (m.outcome == measure::Outcome::kCompilerBug) note(m.reason);
  if (!measure::is_timed(m.outcome)) note_failure(a.task, measure::to_text(m.outcome), m.reason);
  if (is_default) {
    const bool timed = m.outcome == measure::Outcome::kOk;
    if (timed && !a.in_place) time_default(a.task, result.seconds);
    default_failed_[a.task] = !timed;
  }
  if (m.outcome == measure::Outcome::kOk) timed_now_[a.task].insert(a.text);
  // As candidates that are compared alone: no trials of the search.
  if (a.in_place && a.policy == kFinalPolicy) return trials_;
  const std::int64_t number = trials_ + 1;
  end_trial(a);
  return number;
}

void TuneSession::distrust(std::int64_t machine, const std::string& note_of_records) {
  if (!note_of_records.empty()) note(note_of_records);
  calibrations_.erase(machine);
  const auto measured = measured_by_.extract(machine);
  if (measured.empty()) return;
  for (const Measured& of_it : measured.mapped()) {
    searches_->correct(of_it.task, of_it.candidate, kNotBelievedSeconds);
    timed_now_[of_it.task].erase(of_it.text);
    // The finals time the default beside the best, so the session has one before it ends.
    if (of_it.candidate == searches_->space(of_it.task).preferred())
      defaults_s_[of_it.task].clear();
    // For others to measure.
    const search::TrialResult lost{of_it.candidate, measure::Outcome::kWorkerLost, 0};
    searches_->task(of_it.task).observe({&lost, 1});
  }
}

void TuneSession::time_default(std::size_t task, double seconds) {
  std::vector<double>& all = defaults_s_[task];
  all.push_back(seconds);
  std::vector<double> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  before_s_[task] = sorted[sorted.size() / 2];
  before_now_[task] = true;
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
  to_confirm_.insert(round.task);
}

void TuneSession::end(TuneState state) {
  records_.flush();
  fitting_s_ = searches_->end();
  records_.end(state == TuneState::kInterrupted ? "interrupted" : "done");
}

}  // namespace tessera::app
