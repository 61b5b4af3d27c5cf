#include "tessera/app/tune/tune.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/ranges.h>

#include "tessera/app/tune/tune_costs.h"
#include "tessera/app/tune/tune_graph.h"
#include "tessera/app/tune/tune_in_place.h"
#include "tessera/app/tune/tune_session.h"
#include "tessera/app/tune/tune_summary.h"
#include "tessera/app/tune/tune_whole.h"
#include "tessera/support/clock.h"

namespace tessera::app {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Of a budget: after it, nobody looks for other kernels than those that the rules decide for.
constexpr double kAlternativesShare = 0.15;

// What was timed in place is not compared once more alone.
std::vector<std::vector<Finalist>> run_finals(TuneSession& session, bool in_place) {
  const std::set<std::size_t> timed = contending_tasks(session.problem(), session.best_seconds());
  std::vector<std::vector<Finalist>> out(session.tasks());
  double each_s = session.trial_s();  // that a candidate takes
  for (const std::size_t t : heaviest_first(session.problem())) {
    const double begin_s = session.elapsed_s();
    const double whole_s = session.whole_model_s();
    const double room_s = session.remaining_s() - (session.has_room(whole_s) ? whole_s : 0);
    // Beside the default.
    const double most = each_s > 0 ? std::floor(room_s / each_s) - 1 : room_s > 0 ? kInfinity : 0;
    const bool wanted = timed.contains(t) && !session.interrupted() && !in_place;
    out[t] = session.finals(
        t, wanted ? static_cast<std::size_t>(std::clamp<double>(most, 0, TuneSession::kFinalists))
                  : 0);
    const auto compared = static_cast<double>(std::max<std::size_t>(1, out[t].size()));
    each_s = std::max(each_s, (session.elapsed_s() - begin_s) / compared);
    session.report_progress(TuneProgress::Phase::kFinals, t);
  }
  return out;
}

void describe_tasks(const TuneSession& session, const std::vector<std::vector<Finalist>>& finalists,
                    const Selection& selection, TuneResult* result) {
  const TuneProblem& problem = session.problem();
  for (std::size_t t = 0; t < session.tasks(); ++t) {
    TaskReport r = session.describe(t);
    if (selection.picks[t] == kDefaultPick) {
      r.after_s = r.before_s;
    } else if (!finalists[t].empty()) {
      const Finalist& f = finalists[t][std::min(selection.picks[t], finalists[t].size() - 1)];
      r.after_s = f.seconds;
      r.candidate = f.candidate;
      r.now = f.now;
      r.estimated = f.is_estimate();
    }
    result->tasks.push_back(std::move(r));
  }
  const auto use = [&](const TaskUse& u) {
    result->tasks[u.task].weight += u.count;
    result->tasks[u.task].used = true;
  };
  std::for_each(problem.base.begin(), problem.base.end(), use);
  for (std::size_t i = 0; i < problem.points.size(); ++i) {
    const TunePoint& p = problem.points[i];
    for (std::int32_t v = 0; v < p.values(); ++v) {
      for (const TaskUse& u : p.of(v)) {
        if (v == selection.choice[i]) {
          use(u);
        } else if (!result->tasks[u.task].used) {
          result->tasks[u.task].weight += u.count;
        }
      }
    }
  }
  std::stable_sort(result->tasks.begin(), result->tasks.end(),
                   [](const TaskReport& a, const TaskReport& b) {
                     if (a.used != b.used) return a.used;
                     return a.after_s * a.weight > b.after_s * b.weight;
                   });
}

// Operations have no whole to time: their tasks stand for them.
void describe_ops(const TuneSession& session, const std::vector<std::vector<Finalist>>& finalists,
                  const Selection& selection, std::vector<SubjectReport>* reports) {
  const TuneProblem& problem = session.problem();
  const std::vector<double> before = session.default_seconds();
  std::vector<double> after;
  for (std::size_t t = 0; t < finalists.size(); ++t) {
    const std::vector<Finalist>& list = finalists[t];
    after.push_back(list.empty() ? 0 : list[std::min(selection.picks[t], list.size() - 1)].seconds);
  }
  const auto add = [&](const std::vector<TaskUse>& uses, const std::vector<double>& seconds,
                       double SubjectReport::*sum) {
    for (const TaskUse& use : uses) {
      if (problem.subjects[use.subject].is_op) (*reports)[use.subject].*sum += seconds[use.task];
    }
  };
  const auto picked = [&](std::size_t task) -> const Finalist& {
    return finalists[task][std::min(selection.picks[task], finalists[task].size() - 1)];
  };
  const auto tell_how = [&](const std::vector<TaskUse>& uses) {
    for (const TaskUse& use : uses) {
      const std::vector<Finalist>& list = finalists[use.task];
      if (!problem.subjects[use.subject].is_op) continue;
      SubjectReport& report = (*reports)[use.subject];
      report.now = report.now && !list.empty() && picked(use.task).now;
      report.estimated = report.estimated || (!list.empty() && picked(use.task).is_estimate());
    }
  };
  tell_how(problem.base);
  add(problem.base, before, &SubjectReport::before_s);
  add(problem.base, after, &SubjectReport::after_s);
  for (std::size_t i = 0; i < problem.points.size(); ++i) {
    const TunePoint& p = problem.points[i];
    add(p.preferred(), before, &SubjectReport::before_s);
    add(p.of(selection.choice[i]), after, &SubjectReport::after_s);
    tell_how(p.of(selection.choice[i]));
  }
}

// What the plan holds that nobody timed now.
void note_untimed(const TuneSession& session, const TuneResult& result) {
  std::int64_t used = 0, untimed = 0, unreached = 0;
  for (const TaskReport& t : result.tasks) {
    if (!t.used) continue;
    ++used;
    unreached += t.reached ? 0 : 1;
    untimed += t.reached && t.after_s > 0 && !t.now ? 1 : 0;
  }
  if (untimed > 0) {
    session.note(fmt::format(
        "{} of {} schedules of the plan were not timed now: their times are those of records",
        untimed, used));
  }
  if (unreached > 0) {
    session.note(fmt::format(
        "the budget did not reach {} of {} tasks: they are not in the plan and keep their "
        "default schedules",
        unreached, used));
  }
  if (!session.problem().left_out.empty()) {
    session.note(fmt::format("the budget leaves no time to look for kernels of: {}",
                             fmt::join(session.problem().left_out, ", ")));
  }
  if (session.left_aside() > 0) {
    session.note(
        fmt::format("the budget left no time to learn from {} records", session.left_aside()));
  }
}

// Checks and times the whole models, as far as the budget has room for it. False: wrong results.
Result<bool> finish_models(const TuneOptions& options, TuneSession& session, WholeModels& whole,
                           Selection* selection, TuneResult* result) {
  const bool has_models = std::any_of(result->subjects.begin(), result->subjects.end(),
                                      [](const SubjectReport& s) { return !s.is_op; });
  const double needed_s = session.whole_model_s();
  if (has_models && !session.interrupted() && !session.has_room(needed_s)) {
    // Algorithms that round more are taken only where the outputs of the model show that they may.
    *selection = whole.with_untuned_algorithms(*selection);
    for (SubjectReport& s : result->subjects) s.checked = s.is_op;
    session.note(fmt::format(
        "the budget leaves no time to check and time the whole model, which takes about {:.0f} s; "
        "the kernels of the plan were checked one by one",
        std::max(1.0, needed_s)));
    return true;
  }
  // Candidates in place were compared with the untuned model alone.
  bool right = true;
  if (options.in_place && session.has_room(needed_s + session.untuned_check_s())) {
    TESSERA_TRY(right, whole.check_untuned(0, &result->subjects[0]));
  } else if (options.in_place) {
    session.note(fmt::format(
        "{}: the untuned model is not checked: the budget leaves no time to build its nodes alone",
        result->subjects[0].name));
  }
  if (right) {
    TESSERA_TRY(right, whole.verify(selection, &result->subjects));
  }
  if (right && !session.interrupted())
    TESSERA_DO(whole.time(selection, options.recombine && !options.in_place, &result->subjects));
  return right;
}

// The target of `options` is that of the code.
Result<void> finish(const TuneOptions& options, const target::Target& machine,
                    const TuneCallbacks& callbacks, TuneSession& session, TuneResult* result) {
  double begin = session.elapsed_s();
  const std::vector<std::vector<Finalist>> finalists = run_finals(session, options.in_place);
  result->times.finals = session.elapsed_s() - begin;
  begin = session.elapsed_s();
  WholeModels whole(options, session, finalists);
  Selection selection = whole.fastest();
  for (const TuneSubject& s : session.problem().subjects) {
    result->subjects.push_back({.name = s.name, .is_op = s.is_op});
  }
  session.report_progress(TuneProgress::Phase::kWholeModel, 0, true);
  const auto plan_of = [&](const Selection& of) -> Result<plan::Plan> {
    TESSERA_TRY(plan::Plan plan, whole.plan(of));
    plan.target = target::to_text(machine);
    return plan;
  };
  if (session.interrupted() && callbacks.save) {
    TESSERA_TRY(const plan::Plan unchecked, plan_of(selection));
    callbacks.save(unchecked);
  }
  TESSERA_TRY(const bool right, finish_models(options, session, whole, &selection, result));
  if (!right) result->state = TuneState::kRejected;
  if (session.interrupted() && right) result->state = TuneState::kInterrupted;
  describe_ops(session, finalists, selection, &result->subjects);
  describe_tasks(session, finalists, selection, result);
  note_untimed(session, *result);
  if (right) {
    TESSERA_TRY(result->plan, plan_of(selection));
  }
  if (right && whole.unproved()) {
    TESSERA_TRY(result->unproved, plan_of(*whole.unproved()));
  }
  result->times.whole_model = session.elapsed_s() - begin;
  return {};
}

Result<TuneResult> tune_kernels(const TuneOptions& options, const TuneCallbacks& callbacks) {
  const auto start = Clock::now();
  const auto late = [&] {
    // In place, candidates take turns in one model; with other algorithms it would be another one.
    if (options.in_place) return true;
    const double elapsed_s = options.elapsed_s ? options.elapsed_s() : seconds_since(start);
    return options.budget_s > 0 && elapsed_s > kAlternativesShare * options.budget_s;
  };
  TESSERA_TRY(TuneProblem problem, make_tune_problem(options.subjects, {}, late));
  if (options.in_place) problem.left_out.clear();
  if (problem.tasks.empty()) {
    return make_error(ErrorCode::kUnsupported, "{}: there is no kernel to tune",
                      options.subjects[0].name);
  }
  TuneOptions of_code = options;
  of_code.target = target::code_target(options.target, options.measure.threads);
  std::unique_ptr<measure::ModelCopies> copies;  // until all is measured
  if (options.in_place) {
    TESSERA_TRY(copies, place_model(problem, &of_code));
  }
  TESSERA_TRY(const std::unique_ptr<TuneSession> session,
              TuneSession::start(of_code, callbacks, std::move(problem), start));
  TuneResult result;
  TESSERA_TRY(result.stopped_by, options.in_place ? session->search_in_place() : session->search());
  const auto none = [](const std::vector<double>& seconds) {
    return std::none_of(seconds.begin(), seconds.end(), [](double s) { return s > 0; });
  };
  if (none(session->best_seconds()) && none(session->default_seconds())) {
    result.state = session->interrupted() ? TuneState::kInterrupted : TuneState::kNoMeasurement;
    for (std::size_t t = 0; t < session->tasks(); ++t) {
      result.tasks.push_back(session->describe(t));
    }
  } else {
    TESSERA_DO(finish(of_code, options.target, callbacks, *session, &result));
  }
  if (const int ended = copies ? copies->ended() : 0; ended > 0) {
    session->note(
        fmt::format("{} of {} copies of the model ended early: later times had less contention",
                    ended, options.contention));
  }
  session->end(result.state);
  const TuneTimes times = result.times;
  session->describe(&result);
  result.times.finals = times.finals;
  result.times.whole_model = times.whole_model;
  result.times.total = session->elapsed_s();
  const Result<void> kept = keep_summary(options.database, result, session->problem());
  if (!kept) session->note("no summary for reports: " + kept.error().message);
  return result;
}

}  // namespace

Result<TuneResult> tune(const TuneOptions& options, const TuneCallbacks& callbacks) {
  TESSERA_DO(check_in_place(options));
  return options.level == TuneLevel::kKernel ? tune_kernels(options, callbacks)
                                             : tune_graph(options, callbacks);
}

}  // namespace tessera::app
