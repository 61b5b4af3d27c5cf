#include "tessera/app/tune/tune_in_place.h"

#include <algorithm>
#include <limits>
#include <set>

#include "tessera/app/bench/model_inputs.h"
#include "tessera/app/tune/tune_session.h"
#include "tessera/support/quantile.h"
#include "tessera/trials/measure/model_stand.h"

namespace tessera::app {
namespace {

constexpr std::uint64_t kInputSeed = 1;
// Candidates in a row that the rules of schedules refuse.
constexpr int kMostRefused = 16;

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

std::optional<Attempt> TuneSession::next_in_place(std::size_t task) {
  const space::Space& space = searches_->space(task);
  search::TaskSearch& search = searches_->task(task);
  const auto attempt = [&](const decide::Candidate& c, const std::string& policy,
                           double seconds) -> std::optional<Attempt> {
    const Result<schedule::Schedule> steps = space.schedule(c);
    if (!steps) return std::nullopt;
    return Attempt{task, c, *steps, space.to_text(c), policy, seconds, true, kNoRound};
  };
  const std::int64_t begun =
      earlier_of(task) + ended_[task] + static_cast<std::int64_t>(loop_->pending_of(task));
  if (begun == 0) return attempt(space.preferred(), "default", 0);
  for (int tries = 0; tries < kMostRefused; ++tries) {
    const std::vector<decide::Candidate> next = search.propose(1);
    if (next.empty()) break;
    if (auto made = attempt(next[0], options_.policy, 0)) return made;
    const search::TrialResult refused{next[0], measure::Outcome::kInvalidStatic, 0};
    search.observe({&refused, 1});
  }
  // There is nothing new: what is fastest so far is timed once more.
  const std::vector<search::Observation> best = search.best(kFinalists);
  if (best.empty()) return attempt(space.preferred(), "default", 0);
  const search::Observation& again = best[static_cast<std::size_t>(begun) % best.size()];
  return attempt(again.candidate, options_.policy, again.seconds);
}

Result<std::string> TuneSession::search_in_place() {
  const std::vector<std::size_t> placed = placed_tasks(problem_);
  for (const std::size_t t : placed) {
    if (const auto reason = why_stop()) return *reason;
    if (searches_->is_tuned(t)) TESSERA_DO(open(t));
  }
  phase_ = TuneProgress::Phase::kSearch;
  const auto left = [&](std::size_t t) {
    return searches_->is_open(t) &&
           earlier_of(t) + ended_[t] + static_cast<std::int64_t>(loop_->pending_of(t)) <
               options_.trials_in_place;
  };
  // While a batch runs the next is built, where there are cores for it.
  const std::size_t ahead = exclusive_ ? 0 : placed.size();
  for (;;) {
    if (const auto reason = why_stop()) {
      loop_->give_up(interrupted());
      records_.flush();
      for (const std::size_t t : placed) settle_in_place(t);
      return *reason;
    }
    searches_->update();
    std::vector<Attempt> batch;
    for (const std::size_t t : placed) {
      if (!left(t)) continue;
      if (std::optional<Attempt> next = next_in_place(t)) batch.push_back(std::move(*next));
    }
    const bool more = !batch.empty();
    loop_->submit_in_place(std::move(batch));
    if (!more && loop_->pending() == 0) break;
    while (loop_->pending() > (more ? ahead : 0) && !why_stop()) collect(0.25);
    records_.flush();
  }
  for (const std::size_t t : placed) settle_in_place(t);
  records_.flush();
  return std::string("trials");
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
