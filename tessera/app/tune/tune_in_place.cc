#include "tessera/app/tune/tune_in_place.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "tessera/app/bench/model_inputs.h"
#include "tessera/app/tune/tune_pace.h"
#include "tessera/app/tune/tune_session.h"
#include "tessera/machine/runtime/affinity.h"
#include "tessera/support/quantile.h"
#include "tessera/trials/measure/model_stand.h"

namespace tessera::app {
namespace {

constexpr std::uint64_t kInputSeed = 1;
// Candidates in a row that the rules of schedules refuse.
constexpr int kMostRefused = 16;
// Candidates that a policy proposes at once: one by one they cost more than measuring them.
constexpr std::size_t kProposed = 8;
// Of the untuned model's time: tasks below it are left alone.
constexpr double kLeastShare = 1e-3;
// Of the time for searching: for the race, at most.
constexpr double kRaceShare = 0.35;
// Of the runs of a batch: what it takes beside them, for checks and for runs that were disturbed.
constexpr double kBesideRuns = 2;
// Of the time that the race before took: what the next one gets.
constexpr double kNextRace = 1.25;
// A batch is begun where so many times what one takes is left: the one before it runs first.
constexpr double kLastBatch = 1.5;
// Candidates of a task that take turns in a batch: with more, the model's own kernels are timed
// less often for each. Their packed constants take memory, beside those of the model.
constexpr double kMostTurns = 4, kPackedBytes = 1 << 30;
constexpr std::size_t kMostEntrants = 6;
// The fastest of a task whose times follow what its default usually takes.
constexpr std::size_t kSettled = 1024;
// Candidates that seemed slower than the default by more do not race.
constexpr double kEntrantFactor = 1.02;

// Tasks that the untuned model runs.
std::vector<std::size_t> placed_tasks(const TuneProblem& problem) {
  std::set<std::size_t> out;
  const auto add = [&](const TaskUse& use) { out.insert(use.task); };
  std::for_each(problem.base.begin(), problem.base.end(), add);
  for (const TunePoint& p : problem.points)
    std::for_each(p.preferred().begin(), p.preferred().end(), add);
  return {out.begin(), out.end()};
}

}  // namespace

Result<void> check_in_place(const TuneOptions& options) {
  if (!options.in_place) {
    if (options.contention == 0) return {};
    return make_error(ErrorCode::kInvalidArgument,
                      "copies of a model run beside trials in place alone");
  }
  const bool one_model = options.subjects.size() == 1 && !options.subjects[0].is_op;
  if (!one_model || options.level != TuneLevel::kKernel) {
    return make_error(ErrorCode::kInvalidArgument, "trials in place tune the kernels of one model");
  }
  if (options.target.is_gpu()) {
    return make_error(ErrorCode::kUnsupported,
                      "trials in place run on the processor of this machine, not on {}",
                      options.target.name);
  }
  return {};
}

Result<std::unique_ptr<measure::ModelCopies>> place_model(const TuneProblem& problem,
                                                          TuneOptions* options) {
  TESSERA_TRY(const task::PlannedGraph planned,
              task::apply_plan(problem.imported[0], passes_for(problem.subjects[0].compile), {},
                               plan::Decider()));
  std::vector<std::string> keys;
  for (const TuneTask& t : problem.tasks) keys.push_back(t.task.key);
  TESSERA_TRY(std::shared_ptr<const measure::PlacedModel> placed,
              measure::place_model(planned.graph, planned.tasks, keys,
                                   random_model_inputs(planned.graph, kInputSeed), options->target,
                                   options->model));
  const auto bytes = static_cast<double>(std::max<std::int64_t>(1, placed->model.constant_bytes));
  options->measure.most_turns =
      static_cast<std::size_t>(std::clamp(kPackedBytes / bytes, 1.0, kMostTurns));
  options->measure.in_place = measure::in_place_stand(placed);
  options->measure.contended = options->contention > 0;
  if (options->contention == 0) return std::unique_ptr<measure::ModelCopies>();
  return measure::ModelCopies::start(std::move(placed), options->contention,
                                     options->measure.threads);
}

std::optional<Attempt> TuneSession::attempt_in_place(std::size_t task, const decide::Candidate& c,
                                                     const std::string& policy,
                                                     double seconds) const {
  const space::Space& space = searches_->space(task);
  const Result<schedule::Schedule> steps = space.schedule(c);
  if (!steps) return std::nullopt;
  const bool final = policy == kFinalPolicy || options_.record_space;
  return Attempt{task, c, *steps, space.to_text(c), policy, seconds, final, kNoRound};
}

std::optional<Attempt> TuneSession::next_in_place(std::size_t task, std::size_t chosen) {
  const space::Space& space = searches_->space(task);
  search::TaskSearch& search = searches_->task(task);
  const std::int64_t begun =
      earlier_of(task) + ended_[task] + static_cast<std::int64_t>(loop_->pending_of(task) + chosen);
  if (begun == 0) return attempt_in_place(task, space.preferred(), "default", 0);
  std::vector<decide::Candidate>& proposed = proposed_[task];
  for (int tries = 0; tries < kMostRefused; ++tries) {
    if (proposed.empty()) {
      proposed = search.propose(std::min(kProposed, trials_left(task)));
      std::reverse(proposed.begin(), proposed.end());
    }
    if (proposed.empty()) break;
    const decide::Candidate next = std::move(proposed.back());
    proposed.pop_back();
    if (auto made = attempt_in_place(task, next, options_.policy, 0)) return made;
    const search::TrialResult refused{next, measure::Outcome::kInvalidStatic, 0};
    search.observe({&refused, 1});
  }
  if (chosen > 0) return std::nullopt;
  // There is nothing new: what is fastest so far is timed once more.
  const std::vector<search::Observation> best = search.best(kFinalists);
  if (best.empty()) return attempt_in_place(task, space.preferred(), "default", 0);
  const search::Observation& again = best[static_cast<std::size_t>(begun) % best.size()];
  return attempt_in_place(task, again.candidate, options_.policy, again.seconds);
}

// Candidates of a task in a batch: one as long as nobody knows what the model takes.
std::size_t TuneSession::turns_within(double left_s) const {
  const double model_s = untuned_s();
  std::size_t turns = model_s > 0 ? options_.measure.most_turns : 1;
  const auto batch_s = [&] {
    return kBesideRuns * measure::runs_in_place(turns, false, model_s, options_.measure) * model_s;
  };
  while (turns > 1 && batch_s() > left_s) --turns;
  return turns;
}

std::vector<Attempt> TuneSession::batch_in_place(const std::vector<std::size_t>& tasks,
                                                 double left_s) {
  const Clock::time_point begin = Clock::now();
  searches_->update();
  std::vector<Attempt> batch;
  const auto room = [&](std::size_t n) {
    const auto begun = trials_ + static_cast<std::int64_t>(loop_->pending() + n);
    return options_.trials <= 0 || begun < options_.trials;
  };
  // Those that take longer than the usual one get more turns.
  const double usual = tasks.empty() ? 1 : 1 / static_cast<double>(tasks.size());
  const auto most = static_cast<double>(turns_within(left_s));
  for (const std::size_t t : tasks) {
    const double wanted = std::ceil(most * std::min(1.0, share_of(t) / usual));
    const auto turns = std::min(static_cast<std::size_t>(std::max(1.0, wanted)), trials_left(t));
    for (std::size_t n = 0; n < turns && room(batch.size()); ++n) {
      std::optional<Attempt> next = next_in_place(t, n);
      if (!next) break;
      batch.push_back(std::move(*next));
    }
  }
  searching_s_ += seconds_since(begin);
  return batch;
}

double TuneSession::untuned_s() const {
  double sum = 0;
  const auto add = [&](const TaskUse& use) { sum += use.count * before_s_[use.task]; };
  std::for_each(problem_.base.begin(), problem_.base.end(), add);
  for (const TunePoint& p : problem_.points)
    std::for_each(p.preferred().begin(), p.preferred().end(), add);
  return sum;
}

// All entrants, those that lead, the winners. Of small models the runs are the least of it.
double TuneSession::estimated_race_s(std::size_t entrants, std::size_t raced) const {
  const double model_s = untuned_s();
  const int runs = measure::runs_in_place(entrants, true, model_s, options_.measure) +
                   2 * measure::runs_in_place(1, true, model_s, options_.measure);
  const auto trials = static_cast<double>((entrants + 2) * raced);
  return std::max(kBesideRuns * runs * model_s, trials * trial_s_);
}

// Of the time of the untuned model, as far as it is known.
double TuneSession::share_of(std::size_t task) const {
  double own = 0;
  const auto add = [&](const TaskUse& use) {
    if (use.task == task) own += use.count * before_s_[use.task];
  };
  std::for_each(problem_.base.begin(), problem_.base.end(), add);
  for (const TunePoint& p : problem_.points)
    std::for_each(p.preferred().begin(), p.preferred().end(), add);
  const double sum = untuned_s();
  return sum > 0 ? own / sum : 1;
}

bool TuneSession::wants_more_in_place(std::size_t task) const {
  if (!searches_->is_open(task) || searches_->hopeless(task)) return false;
  if (options_.trials_per_task > 0 || options_.trials > 0) return trials_left(task) > 0;
  return before_s_[task] <= 0 || (share_of(task) > kLeastShare && !searches_->stopped(task));
}

// The scheduler keeps the trial of each task's last gain.
void TuneSession::report_in_place(const std::vector<std::size_t>& placed) {
  for (const std::size_t t : placed) {
    const std::int64_t trials = ended_[t] - std::exchange(reported_[t], ended_[t]);
    if (trials > 0) searches_->report(t, trials, /*repeats=*/true);
  }
}

// Batches of trials until then. The next one is proposed and built while one runs, or, where that
// takes all cores, before and after it. `batch_s`: from the end of one to the end of the next.
std::string TuneSession::search_batches(const std::vector<std::size_t>& placed,
                                        const std::function<double()>& until_s, double* batch_s) {
  const double begin_s = elapsed_s();
  const std::int64_t begun = trials_;
  std::string ended = "trials";
  for (bool more = true; more || loop_->pending() > 0;) {
    const double turn_s = elapsed_s();
    const auto reason = why_stop();
    if (reason || turn_s >= until_s()) {
      loop_->give_up(interrupted());
      ended = reason.value_or("budget");
      break;
    }
    std::vector<Attempt> batch;
    // One that would not end in time is not begun.
    if (turn_s + kLastBatch * *batch_s < until_s()) {
      std::vector<std::size_t> open;
      std::copy_if(placed.begin(), placed.end(), std::back_inserter(open),
                   [&](std::size_t t) { return wants_more_in_place(t); });
      batch = batch_in_place(open, until_s() - turn_s);
    } else {
      ended = "budget";
    }
    more = !batch.empty();
    const std::size_t before = loop_->pending(), ahead = batch.size();
    loop_->submit_in_place(std::move(batch));
    while (loop_->pending() > ahead && !why_stop() && elapsed_s() < until_s()) collect(0.25);
    report_in_place(placed);
    if (before > 0) *batch_s = elapsed_s() - turn_s;
    if (trials_ > begun) trial_s_ = (elapsed_s() - begin_s) / static_cast<double>(trials_ - begun);
    records_.flush();
  }
  for (const std::size_t t : placed) settle_in_place(t);
  return ended;
}

Result<std::string> TuneSession::search_in_place() {
  // As search() does.
  const runtime::ScopedAffinity all_cores;
  if (!exclusive_) (void)runtime::leave_cores(options_.measure.threads);
  const std::vector<std::size_t> placed = placed_tasks(problem_);
  for (const std::size_t t : placed) {
    if (const auto reason = why_stop()) return *reason;
    if (searches_->is_tuned(t)) TESSERA_DO(open(t));
  }
  // Trials of each task are for records: nothing else is measured then.
  const bool races = options_.trials_per_task == 0;
  const double begin_s = elapsed_s();
  double race_s = 0, batch_s = 0;  // that the last one took
  // The race gets what it can use, within its share.
  const auto until_s = [&] {
    if (!races || options_.budget_s <= 0) return search_until_s();
    // Beside it, a trial that is under way ends.
    if (race_s > 0) return search_until_s() - kNextRace * race_s - trial_s_;
    const double most_s = kRaceShare * (search_until_s() - begin_s);
    const double used_s = untuned_s() > 0 ? estimated_race_s(kMostEntrants, placed.size()) : most_s;
    return search_until_s() - std::min(most_s, used_s);
  };
  // What a race takes is known after the first one: where time is left, the search goes on, and
  // winners have to win again.
  for (std::int64_t raced = earlier_;;) {
    phase_ = TuneProgress::Phase::kSearch;
    const std::string ended = search_batches(placed, until_s, &batch_s);
    if (!races || trials_ == raced || why_stop()) return ended;
    raced = trials_;
    const double race_begin_s = elapsed_s();
    race_in_place(placed);
    records_.flush();
    race_s = elapsed_s() - race_begin_s;
    if (options_.budget_s <= 0 || ended != "budget" || elapsed_s() >= until_s()) return ended;
  }
}

// The best of the search and who won before, fastest first.
std::vector<decide::Candidate> TuneSession::entrants_of(std::size_t task, std::size_t most) const {
  std::vector<decide::Candidate> out;
  if (!searches_->is_open(task)) return out;
  if (race_ && race_->runs(task)) {
    if (const auto winner = race_->winner(task)) out.push_back(winner->candidate);
  }
  const decide::Candidate preferred = searches_->space(task).preferred();
  for (const search::Observation& o : searches_->task(task).best(most + 1)) {
    const bool slow = o.seconds > kEntrantFactor * before_s_[task];
    const bool twice = std::find(out.begin(), out.end(), o.candidate) != out.end();
    if (o.candidate == preferred || slow || twice || out.size() == most) continue;
    out.push_back(o.candidate);
  }
  return out;
}

void TuneSession::race_in_place(const std::vector<std::size_t>& placed) {
  // What is kept for another race is what the one before it took.
  std::size_t entrants =
      race_ ? entrants_ : std::min(kMostEntrants, options_.measure.most_turns + 2);
  const double left_s = search_until_s() - elapsed_s();
  while (entrants > 1 && !race_ && estimated_race_s(entrants, placed.size()) > left_s) --entrants;
  entrants_ = entrants;
  std::vector<std::vector<decide::Candidate>> racing(tasks());
  for (const std::size_t t : placed) racing[t] = entrants_of(t, entrants);
  std::optional<InPlaceRace> earlier = std::exchange(race_, InPlaceRace(std::move(racing)));
  phase_ = TuneProgress::Phase::kFinals;
  bool whole = false;
  while (!why_stop()) {
    std::vector<Attempt> batch;
    for (const InPlaceRace::Draw& draw : race_->next()) {
      if (auto made = attempt_in_place(draw.task, draw.candidate, kFinalPolicy, 0)) {
        made->together = race_->tells();
        batch.push_back(std::move(*made));
      }
    }
    whole = batch.empty();
    if (whole) break;
    loop_->submit_in_place(std::move(batch));
    while (loop_->pending() > 0 && !why_stop()) collect(0.25);
  }
  loop_->give_up(interrupted());
  // Who won a whole race is not replaced by a part of one.
  if (earlier && !whole) race_ = std::move(earlier);
  for (const std::size_t t : placed) settle_race(t);
}

// What the race told of a task, for the progress and the table.
void TuneSession::settle_race(std::size_t task) {
  if (!searches_->is_open(task) || !race_->runs(task) || before_s_[task] <= 0) return;
  const std::optional<InPlaceRace::Winner> winner = race_->winner(task);
  const space::Space& space = searches_->space(task);
  if (!winner) {
    gains_.keep_default(task, space.to_text(space.preferred()));
    compared_best_s_[task] = before_s_[task];
    return;
  }
  compared_best_s_[task] = before_s_[task] / winner->gain;
  gains_.confirm(task, space.to_text(winner->candidate), winner->gain, 1);
  searches_->correct(task, winner->candidate, compared_best_s_[task]);
}

std::vector<Finalist> TuneSession::finals_in_place(std::size_t task) const {
  const space::Space& space = searches_->space(task);
  std::vector<Finalist> out;
  const auto add = [&](const decide::Candidate& c, double seconds, bool is_default, bool raced) {
    const Result<schedule::Schedule> steps = space.schedule(c);
    if (!steps || seconds <= 0) return;
    out.push_back({space.to_text(c), schedule::to_text(*steps), seconds, is_default, seconds,
                   before_now_[task], raced});
  };
  if (const auto winner = race_->winner(task))
    add(winner->candidate, before_s_[task] / winner->gain, false, winner->told);
  add(space.preferred(), before_s_[task], true, true);
  return out;
}

void TuneSession::settle_in_place(std::size_t task) {
  if (before_s_[task] <= 0 || defaults_s_[task].empty()) return;
  const double usual_s = median(defaults_s_[task]), scale = usual_s / before_s_[task];
  // Those of earlier sessions, too: what keeps its time would seem faster than what does not.
  for (const search::Observation& o : searches_->task(task).best(kSettled))
    searches_->correct(task, o.candidate, scale * o.seconds);
  compared_best_s_[task] *= scale;
  before_s_[task] = usual_s;
  before_now_[task] = true;
}

}  // namespace tessera::app
