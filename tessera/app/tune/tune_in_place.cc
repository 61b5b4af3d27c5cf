#include "tessera/app/tune/tune_in_place.h"

#include <algorithm>
#include <limits>
#include <set>

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
// Of the time for searching: for the race, at most. Its batches are timed longer than others, and
// nothing is proposed for them.
constexpr double kRaceShare = 0.35, kFinalBatch = 1;
constexpr std::size_t kMostEntrants = 6;
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

Result<void> place_model(const TuneProblem& problem, TuneOptions* options) {
  TESSERA_TRY(const task::PlannedGraph planned,
              task::apply_plan(problem.imported[0], passes_for(problem.subjects[0].compile), {},
                               plan::Decider()));
  std::vector<std::string> keys;
  for (const TuneTask& t : problem.tasks) keys.push_back(t.task.key);
  TESSERA_TRY(std::shared_ptr<const measure::PlacedModel> placed,
              measure::place_model(planned.graph, planned.tasks, keys,
                                   random_model_inputs(planned.graph, kInputSeed), options->target,
                                   options->model));
  options->measure.in_place = measure::in_place_stand(std::move(placed));
  return {};
}

std::optional<Attempt> TuneSession::attempt_in_place(std::size_t task, const decide::Candidate& c,
                                                     const std::string& policy,
                                                     double seconds) const {
  const space::Space& space = searches_->space(task);
  const Result<schedule::Schedule> steps = space.schedule(c);
  if (!steps) return std::nullopt;
  const bool final = policy == kFinalPolicy;
  return Attempt{task, c, *steps, space.to_text(c), policy, seconds, final, kNoRound};
}

std::optional<Attempt> TuneSession::next_in_place(std::size_t task) {
  const space::Space& space = searches_->space(task);
  search::TaskSearch& search = searches_->task(task);
  const std::int64_t begun =
      earlier_of(task) + ended_[task] + static_cast<std::int64_t>(loop_->pending_of(task));
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
  // There is nothing new: what is fastest so far is timed once more.
  const std::vector<search::Observation> best = search.best(kFinalists);
  if (best.empty()) return attempt_in_place(task, space.preferred(), "default", 0);
  const search::Observation& again = best[static_cast<std::size_t>(begun) % best.size()];
  return attempt_in_place(task, again.candidate, options_.policy, again.seconds);
}

// Of the time of the untuned model, as far as it is known.
double TuneSession::share_of(std::size_t task) const {
  double sum = 0, own = 0;
  const auto add = [&](const TaskUse& use) {
    sum += use.count * before_s_[use.task];
    if (use.task == task) own += use.count * before_s_[use.task];
  };
  std::for_each(problem_.base.begin(), problem_.base.end(), add);
  for (const TunePoint& p : problem_.points)
    std::for_each(p.preferred().begin(), p.preferred().end(), add);
  return sum > 0 ? own / sum : 1;
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
  phase_ = TuneProgress::Phase::kSearch;
  const bool limited = options_.trials_per_task > 0 || options_.trials > 0;
  const auto left = [&](std::size_t t) {
    if (!searches_->is_open(t)) return false;
    if (limited) return trials_left(t) > 0;
    const std::int64_t trials = earlier_of(t) + ended_[t];
    return before_s_[t] <= 0 ||
           (share_of(t) > kLeastShare && trials < pace_of(options_.target).stop_after);
  };
  const double begin_s = elapsed_s();
  // Trials of each task are for records: nothing else is measured then.
  const bool races = options_.trials_per_task == 0;
  int batches = 0;
  const auto batch_s = [&] { return batches > 0 ? (elapsed_s() - begin_s) / batches : 0; };
  // The race gets what it can use, within its share.
  const auto until_s = [&] {
    if (!races || options_.budget_s <= 0) return search_until_s();
    const double most_s = kRaceShare * (search_until_s() - begin_s);
    const auto race_batches = static_cast<double>(InPlaceRace::batches(kMostEntrants));
    const double used_s = kFinalBatch * batch_s() * race_batches;
    return search_until_s() - (batches > 0 ? std::min(most_s, used_s) : most_s);
  };
  std::string ended = "trials";
  // While a batch runs the next is built, where there are cores for it.
  const std::size_t ahead = exclusive_ ? 0 : placed.size();
  for (;;) {
    const auto reason = why_stop();
    if (reason || elapsed_s() >= until_s()) {
      loop_->give_up(interrupted());
      ended = reason.value_or("budget");
      break;
    }
    searches_->update();
    std::vector<Attempt> batch;
    for (const std::size_t t : placed) {
      const std::int64_t begun =
          trials_ + static_cast<std::int64_t>(loop_->pending() + batch.size());
      if (!left(t) || (options_.trials > 0 && begun >= options_.trials)) continue;
      if (std::optional<Attempt> next = next_in_place(t)) batch.push_back(std::move(*next));
    }
    const bool more = !batch.empty();
    loop_->submit_in_place(std::move(batch));
    if (!more && loop_->pending() == 0) break;
    while (loop_->pending() > (more ? ahead : 0) && !why_stop()) collect(0.25);
    ++batches;
    records_.flush();
  }
  for (const std::size_t t : placed) settle_in_place(t);
  if (races && batches > 0 && !why_stop()) race_in_place(placed, batch_s());
  records_.flush();
  return ended;
}

void TuneSession::race_in_place(const std::vector<std::size_t>& placed, double batch_s) {
  const double most = (search_until_s() - elapsed_s()) / (kFinalBatch * batch_s) -
                      static_cast<double>(InPlaceRace::batches(0));
  const auto entrants =
      static_cast<std::size_t>(std::clamp(most, 1.0, static_cast<double>(kMostEntrants)));
  std::vector<std::vector<decide::Candidate>> racing(tasks());
  for (const std::size_t t : placed) {
    if (!searches_->is_open(t)) continue;
    const decide::Candidate preferred = searches_->space(t).preferred();
    for (const search::Observation& o : searches_->task(t).best(entrants + 1)) {
      const bool slow = o.seconds > kEntrantFactor * before_s_[t];
      if (o.candidate == preferred || slow || racing[t].size() == entrants) continue;
      racing[t].push_back(o.candidate);
    }
  }
  race_.emplace(std::move(racing));
  phase_ = TuneProgress::Phase::kFinals;
  while (!why_stop()) {
    std::vector<Attempt> batch;
    for (const InPlaceRace::Draw& draw : race_->next()) {
      if (auto made = attempt_in_place(draw.task, draw.candidate, kFinalPolicy, 0)) {
        made->together = race_->tells();
        batch.push_back(std::move(*made));
      }
    }
    if (batch.empty()) break;
    loop_->submit_in_place(std::move(batch));
    while (loop_->pending() > 0 && !why_stop()) collect(0.25);
  }
  loop_->give_up(interrupted());
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
  const auto add = [&](const decide::Candidate& c, double seconds, bool is_default) {
    const Result<schedule::Schedule> steps = space.schedule(c);
    if (!steps || seconds <= 0) return;
    out.push_back({space.to_text(c), schedule::to_text(*steps), seconds, is_default, seconds,
                   before_now_[task]});
  };
  if (const auto winner = race_->winner(task))
    add(winner->candidate, before_s_[task] / winner->gain, false);
  add(space.preferred(), before_s_[task], true);
  return out;
}

void TuneSession::settle_in_place(std::size_t task) {
  if (before_s_[task] <= 0 || defaults_s_[task].empty()) return;
  const double usual_s = median(defaults_s_[task]), scale = usual_s / before_s_[task];
  for (const search::Observation& o : searches_->task(task).best(defaults_s_[task].size()))
    searches_->correct(task, o.candidate, scale * o.seconds);
  before_s_[task] = usual_s;
  before_now_[task] = true;
}

}  // namespace tessera::app
