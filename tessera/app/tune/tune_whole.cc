#include "tessera/app/tune/tune_whole.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/bench/bench_op.h"
#include "tessera/app/bench/check_kernels.h"
#include "tessera/app/tune/tune_costs.h"
#include "tessera/app/tune/undo_changes.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/fast_math.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/support/clock.h"

namespace tessera::app {
namespace {

constexpr std::uint64_t kSeed = 1;
// A swap must gain this much: less is noise.
constexpr double kLeastGain = 0.005;
constexpr double kDisturbed = 0.05;  // the same of times that other processes disturbed
// A gain is timed again: noise seems to be one, too.
constexpr int kConfirmations = 2;
// How often the tuned model is timed beside the untuned one before it is kept, at most.
constexpr int kComparisons = 4;
// Swaps without a gain in a row before the rest is left alone, and swaps in all.
constexpr int kPatience = 6, kMostSwaps = 24;

runtime::TimingOptions short_timing(double model_s) {
  return {.samples = 9, .min_samples = 5, .time_limit_s = std::clamp(20 * model_s, 0.3, 4.0)};
}

void add_samples(const runtime::Samples& more, runtime::Samples* all) {
  all->trusted = (all->call_s.empty() || all->trusted) && more.trusted;
  all->call_s.insert(all->call_s.end(), more.call_s.begin(), more.call_s.end());
}

Result<void> set_inputs(const WholeModels::Built& built, exec::ModelRunner& runner) {
  const std::vector<HostTensor> inputs = random_model_inputs(built.graph, kSeed);
  for (std::size_t i = 0; i < inputs.size(); ++i) TESSERA_DO(runner.set_input(i, inputs[i]));
  return runner.run();
}

}  // namespace

WholeModels::WholeModels(const TuneOptions& options, TuneSession& session,
                         const std::vector<std::vector<Finalist>>& finalists)
    : options_(options), session_(session), finalists_(finalists) {
  const std::vector<TuneTask>& tasks = session.problem().tasks;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    task_of_key_[tasks[t].task.key] = t;
    seconds_.push_back(finalists[t].empty() ? 0 : finalists[t][0].seconds);
  }
}

Selection WholeModels::fastest() const {
  return {cheapest_values(session_.problem(), seconds_),
          std::vector<std::size_t>(seconds_.size(), 0),
          {}};
}

Selection WholeModels::with_untuned_algorithms(Selection s) const {
  s.choice = preferred_values(session_.problem());
  return s;
}

Selection WholeModels::with_default_schedules(Selection s) const {
  for (std::size_t t = 0; t < finalists_.size(); ++t) {
    s.picks[t] = kDefaultPick;
    for (std::size_t f = 0; f < finalists_[t].size(); ++f) {
      if (finalists_[t][f].is_default) s.picks[t] = f;
    }
  }
  return s;
}

plan::Decisions WholeModels::decisions(const Selection& selection) const {
  plan::Decisions out = selection.given;
  const std::vector<TunePoint>& points = session_.problem().points;
  for (std::size_t i = 0; i < points.size(); ++i)
    out[points[i].point.name] = points[i].point.label(selection.choice[i]);
  return out;
}

Result<task::PlannedGraph> WholeModels::planned(std::size_t subject, const Selection* selection,
                                                bool shapes_only) const {
  const TuneProblem& problem = session_.problem();
  graph::PassOptions passes = passes_for(problem.subjects[subject].compile);
  passes.shapes_only = shapes_only;
  return task::apply_plan(
      problem.imported[subject], passes, {},
      plan::Decider(selection != nullptr ? decisions(*selection) : plan::Decisions()));
}

const Finalist* WholeModels::finalist(const std::string& key, const Selection& selection) const {
  const auto it = task_of_key_.find(key);
  if (it == task_of_key_.end()) return nullptr;
  const std::vector<Finalist>& list = finalists_[it->second];
  if (selection.picks[it->second] == kDefaultPick) return nullptr;
  return list.empty() ? nullptr : &list[std::min(selection.picks[it->second], list.size() - 1)];
}

Result<WholeModels::Built> WholeModels::build(std::size_t subject, const Selection* selection) {
  exec::ModelOptions model = options_.model;
  // Not earlier: what a driver has begun does not survive the fork of a worker.
  if (!device_) {
    TESSERA_TRY(device_,
                runtime::open_device(options_.target.kind, {.threads = options_.measure.threads}));
  }
  model.device = device_.get();
  if (selection != nullptr) {
    model.schedule = [&](const task::Task& task) -> Result<schedule::Schedule> {
      const Finalist* f = finalist(task.key, *selection);
      if (f == nullptr) return space::default_schedule(task.dag, options_.target);
      return schedule::schedule_from_text(f->schedule);
    };
  }
  Built built;
  TESSERA_TRY(task::PlannedGraph made, planned(subject, selection, /*shapes_only=*/false));
  built.graph = std::move(made.graph);
  built.tasks = std::move(made.tasks);
  TESSERA_TRY(built.model, exec::compile_model(built.graph, built.tasks, options_.target, model));
  return built;
}

Result<std::shared_ptr<const WholeModels::Built>> WholeModels::untuned(std::size_t subject) {
  if (untuned_ != nullptr) return untuned_;
  TESSERA_TRY(Built built, build(subject, nullptr));
  auto made = std::make_shared<const Built>(std::move(built));
  if (session_.problem().subjects.size() == 1) untuned_ = made;
  return std::shared_ptr<const Built>(std::move(made));
}

Result<std::shared_ptr<const WholeModels::Built>> WholeModels::selected(
    std::size_t subject, const Selection& selection) {
  if (verified_ != nullptr && verified_selection_ == selection) return verified_;
  TESSERA_TRY(Built built, build(subject, &selection));
  return std::make_shared<const Built>(std::move(built));
}

std::unique_ptr<exec::ModelRunner> WholeModels::runner(const Built& built) const {
  return std::make_unique<exec::ModelRunner>(built.model, *device_);
}

Result<std::vector<HostTensor>> WholeModels::outputs_of(const Built& built) const {
  return exec::run_model(built.model, *device_, random_model_inputs(built.graph, kSeed));
}

// Medians of models that take turns.
Result<std::vector<runtime::Samples>> WholeModels::time_side_by_side(
    const std::vector<const Built*>& models) {
  std::vector<std::unique_ptr<exec::ModelRunner>> runners;
  double once_s = 0;  // of the slowest: sums of kernels may not be known
  for (const Built* built : models) {
    exec::ModelRunner& r = *runners.emplace_back(runner(*built));
    TESSERA_DO(set_inputs(*built, r));
    const auto begin = Clock::now();
    TESSERA_DO(r.run());
    once_s = std::max(once_s, seconds_since(begin));
  }
  runtime::InterleavedTimer timer(short_timing(once_s));
  for (const auto& r : runners) add_runs(&timer, *device_, *r);
  return timer.run();
}

Result<Comparison> WholeModels::compare(const std::vector<const Built*>& models) {
  Comparison out;
  std::vector<Gain> gains;
  for (int round = 0; round < kComparisons; ++round) {
    const double begin_s = session_.elapsed_s();
    TESSERA_TRY(const std::vector<runtime::Samples> samples, time_side_by_side(models));
    add_samples(samples[0], &out.before);
    add_samples(samples[1], &out.after);
    gains.push_back(gain_of(samples[0], samples[1]));
    out.gain = combined(gains);
    const bool clear = std::abs(out.gain.gain) > 2 * std::max(kLeastGain, out.gain.noise);
    // Noise looks like a gain now and then: a single round is not believed.
    if ((round > 0 && clear) || session_.interrupted()) break;
    if (!session_.has_room(session_.elapsed_s() - begin_s)) break;
  }
  return out;
}

bool WholeModels::give_up_rounding(Selection* selection) const {
  const std::vector<TunePoint>& points = session_.problem().points;
  const auto rounding = [&](std::size_t i) {
    const decide::Point& p = points[i].point;
    return selection->choice[i] == p.preferred ? 0 : plan::rounding(p.label(selection->choice[i]));
  };
  int most = 0;
  for (std::size_t i = 0; i < points.size(); ++i) most = std::max(most, rounding(i));
  if (most == 0) return false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (rounding(i) == most) selection->choice[i] = points[i].point.preferred;
  }
  return true;
}

Result<const std::vector<HostTensor>*> WholeModels::wanted(std::size_t subject) {
  wanted_.resize(session_.problem().subjects.size());
  if (wanted_[subject].empty()) {
    TESSERA_TRY(const auto plain, untuned(subject));
    TESSERA_TRY(wanted_[subject], outputs_of(*plain));
  }
  return &wanted_[subject];
}

Result<double> WholeModels::error_of(std::size_t subject, const Built& built) {
  TESSERA_TRY(const std::vector<HostTensor>* want, wanted(subject));
  TESSERA_TRY(const std::vector<HostTensor> got, outputs_of(built));
  return worst_output(built.graph, got, *want, target::products_of(options_.target));
}

std::string WholeModels::Error::text() const {
  if (!wrong_node.empty()) {
    return std::isinf(worst)
               ? fmt::format("the kernel of '{}' differs", wrong_node)
               : fmt::format("the kernel of '{}' differs by {:.1f} times what is allowed",
                             wrong_node, worst);
  }
  if (std::isinf(worst))
    return "the outputs differ in shape, NaN or infinity, or are NaN everywhere";
  return fmt::format("the outputs differ by {:.1f} times what is allowed", worst);
}

Result<WholeModels::Error> WholeModels::of_kernels(const Built& built, const Selection* selection,
                                                   double of_outputs) {
  Error out{of_outputs, {}};
  if (of_outputs > 1 || !is_narrow(built.graph)) return out;
  const auto known = [&](const task::Task& task) {
    const Finalist* f = selection != nullptr ? finalist(task.key, *selection) : nullptr;
    return std::pair(task.key, f != nullptr ? f->schedule : std::string());
  };
  std::set<std::string> agreed;
  for (const task::Task& task : built.tasks.tasks) {
    if (agreed_.contains(known(task))) agreed.insert(task.key);
  }
  const auto ran = runner(built);
  TESSERA_DO(set_inputs(built, *ran));
  TESSERA_TRY(const KernelsCheck kernels,
              check_kernels(built.graph, built.tasks, built.model, *ran, &agreed));
  for (const task::Task& task : built.tasks.tasks) {
    if (agreed.contains(task.key)) agreed_.insert(known(task));
  }
  out.worst = kernels.worst;
  if (kernels.worst > 1) out.wrong_node = kernels.worst_node;
  return out;
}

Result<WholeModels::Error> WholeModels::checked(std::size_t subject, const Built& built,
                                                const Selection& selection) {
  TESSERA_TRY(const double error, error_of(subject, built));
  return of_kernels(built, &selection, error);
}

Result<bool> WholeModels::check_untuned(std::size_t subject, SubjectReport* report) {
  const TuneSubject& s = session_.problem().subjects[subject];
  TESSERA_TRY(const auto plain, untuned(subject));
  TESSERA_TRY(const std::vector<HostTensor>* got, wanted(subject));
  const auto otherwise = [&]() -> Result<std::vector<HostTensor>> {
    TESSERA_TRY(const onnx::Model model, load_onnx(s.name));
    CompileOptions how = s.compile;
    how.target = options_.target;
    how.cache = options_.model.cache;
    return outputs_otherwise(model, how, random_model_inputs(plain->graph, kSeed), *device_);
  };
  const Result<std::vector<HostTensor>> want = otherwise();
  if (!want) {
    session_.note(
        fmt::format("{}: the untuned model is not checked: {}", s.name, want.error().message));
    return true;
  }
  const double of_outputs =
      worst_output(plain->graph, *got, *want, target::products_of(options_.target));
  TESSERA_TRY(const Error error, of_kernels(*plain, nullptr, of_outputs));
  report->untuned_checked = error.worst <= 1;
  if (error.worst <= 1) return true;
  if (agree_but_for_no_numbers(plain->graph, *got, *want)) {
    session_.note(fmt::format("{}: outputs that are NaN are not checked", s.name));
    return true;
  }
  session_.note(fmt::format("{}: without tuning, {}", s.name, error.text()));
  return false;
}

Result<bool> WholeModels::verify(Selection* selection, std::vector<SubjectReport>* reports) {
  const std::vector<TuneSubject>& subjects = session_.problem().subjects;
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      if (subjects[i].is_op) continue;
      TESSERA_TRY(Built tuned, build(i, selection));
      TESSERA_TRY(const Error error, checked(i, tuned, *selection));
      if (subjects.size() == 1) {
        verified_ = std::make_shared<const Built>(std::move(tuned));
        verified_selection_ = *selection;
      }
      (*reports)[i].max_error = error.worst;
      if (error.worst <= 1) continue;
      session_.note(fmt::format("{}: {}", subjects[i].name, error.text()));
      if (!give_up_rounding(selection)) return false;
      session_.note("trying algorithms that round less");
      again = true;
      break;
    }
  }
  return true;
}

Result<void> WholeModels::time(Selection* selection, bool improve_it,
                               std::vector<SubjectReport>* reports) {
  const std::vector<TuneSubject>& subjects = session_.problem().subjects;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (subjects[i].is_op) continue;
    SubjectReport& report = (*reports)[i];
    TESSERA_TRY(const auto plain, untuned(i));
    TESSERA_TRY(auto tuned, selected(i, *selection));
    if (improve_it && subjects.size() == 1) {
      const Selection checked = *selection;
      TESSERA_DO(improve(i, selection, &tuned));
      if (selection->picks != checked.picks) {
        TESSERA_TRY(const bool right, verify(selection, reports));
        if (!right) *selection = checked;
        TESSERA_TRY(tuned, selected(i, *selection));
      }
    }
    if (is_untuned(*selection)) {  // there is nothing to compare it with
      TESSERA_TRY(const std::vector<runtime::Samples> once, time_side_by_side({plain.get()}));
      report.before_s = report.after_s = once[0].median_s();
      report.trusted = once[0].trusted;
      continue;
    }
    const double begin_s = session_.elapsed_s();
    TESSERA_TRY(const Comparison last, compare({plain.get(), tuned.get()}));
    tell(last, &report);
    if (subjects.size() > 1 || is_sure(last.gain, kLeastGain)) continue;
    if (options_.in_place) {
      const double each_s =
          session_.elapsed_s() - begin_s + tuned->model.build_ms / 1000;  // that a try takes
      TESSERA_TRY(const bool part, undo_changes(i, last.gain, each_s, selection, &report));
      if (part) continue;
    }
    // Faster kernels one by one, no faster together: nothing was gained, so nothing is changed.
    if (!unproved_ && last.gain.gain > kLeastGain) unproved_ = *selection;
    *selection = with_default_schedules(with_untuned_algorithms(fastest()));
    report.after_s = report.before_s;
    session_.note(
        fmt::format("{}: its kernels are faster one by one, but the model {}; the plan keeps the "
                    "default schedules",
                    subjects[i].name, unproved_text(last.gain, kLeastGain)));
  }
  return {};
}

void WholeModels::tell(const Comparison& comparison, SubjectReport* report) {
  report->before_s = comparison.before.median_s();
  report->after_s = comparison.after.median_s();
  report->trusted = comparison.before.trusted && comparison.after.trusted;
}

std::vector<std::size_t> WholeModels::changed_tasks(const Selection& selection) const {
  const TuneProblem& problem = session_.problem();
  std::map<std::size_t, double> saved_s;
  const auto add = [&](const TaskUse& use) {
    const Finalist* f = finalist(problem.tasks[use.task].task.key, selection);
    if (f == nullptr || f->is_default) return;
    saved_s[use.task] += use.count * (session_.default_seconds()[use.task] - f->seconds);
  };
  std::for_each(problem.base.begin(), problem.base.end(), add);
  for (std::size_t i = 0; i < problem.points.size(); ++i) {
    const std::vector<TaskUse>& uses = problem.points[i].of(selection.choice[i]);
    std::for_each(uses.begin(), uses.end(), add);
  }
  std::vector<std::size_t> out;
  for (const auto& [task, saved] : saved_s) out.push_back(task);
  std::stable_sort(out.begin(), out.end(),
                   [&](std::size_t a, std::size_t b) { return saved_s.at(a) > saved_s.at(b); });
  return out;
}

Result<bool> WholeModels::undo_changes(std::size_t subject, const Gain& of_all, double each_s,
                                       Selection* selection, SubjectReport* report) {
  TESSERA_TRY(const auto plain, untuned(subject));
  const std::vector<std::size_t> changed = changed_tasks(*selection);
  const auto with = [&](const std::vector<std::size_t>& tasks) {
    Selection out = with_default_schedules(*selection);
    for (const std::size_t t : tasks) out.picks[t] = selection->picks[t];
    return out;
  };
  // Of what computes something else nothing is gained.
  double error = 0;
  const auto compared = [&](const std::vector<std::size_t>& tasks) -> Result<Comparison> {
    const Selection some = with(tasks);
    TESSERA_TRY(const Built built, build(subject, &some));
    TESSERA_TRY(error, error_of(subject, built));
    if (error > 1) return Comparison();
    return compare({plain.get(), &built});
  };
  const auto time = [&](const std::vector<std::size_t>& tasks) -> Result<std::optional<Gain>> {
    // What is kept is timed once more.
    if (session_.interrupted() || session_.remaining_s() < 2 * each_s) return std::optional<Gain>();
    const double begin_s = session_.elapsed_s();
    TESSERA_TRY(const Comparison some, compared(tasks));
    each_s = std::max(each_s, session_.elapsed_s() - begin_s);
    session_.report_progress(TuneProgress::Phase::kWholeModel, tasks[0]);
    return std::optional(some.gain);
  };
  TESSERA_TRY(const std::vector<std::size_t> kept, surely_faster(changed, kLeastGain, time));
  if (kept.empty()) return false;
  unproved_ = with(kept);
  if (session_.interrupted()) return false;
  TESSERA_TRY(const Comparison again, compared(kept));
  if (!is_sure(again.gain, kLeastGain)) return false;
  unproved_.reset();
  tell(again, report);
  report->max_error = error;
  *selection = with(kept);
  session_.note(fmt::format(
      "{}: with the new schedules of all {} kernels the model {}; the plan has {} of them",
      report->name, changed.size(), unproved_text(of_all, kLeastGain), kept.size()));
  return true;
}

bool WholeModels::is_untuned(const Selection& selection) const {
  const TuneProblem& problem = session_.problem();
  if (!selection.given.empty() || selection.choice != preferred_values(problem)) return false;
  const auto is_default = [&](const TaskUse& use) {
    const Finalist* f = finalist(problem.tasks[use.task].task.key, selection);
    return f == nullptr || f->is_default;
  };
  const auto all_default = [&](const std::vector<TaskUse>& uses) {
    return std::all_of(uses.begin(), uses.end(), is_default);
  };
  if (!all_default(problem.base)) return false;
  return std::all_of(problem.points.begin(), problem.points.end(),
                     [&](const TunePoint& p) { return all_default(p.preferred()); });
}

Result<void> WholeModels::improve(std::size_t subject, Selection* selection,
                                  std::shared_ptr<const Built>* current) {
  const TuneProblem& problem = session_.problem();
  std::vector<TaskUse> uses = problem.base;
  for (std::size_t i = 0; i < problem.points.size(); ++i) {
    const std::vector<TaskUse>& more = problem.points[i].of(selection->choice[i]);
    uses.insert(uses.end(), more.begin(), more.end());
  }
  std::vector<std::size_t> open;  // tasks with something to swap
  std::vector<decide::Point> points;
  for (const TaskUse& use : uses) {
    const std::vector<Finalist>& list = finalists_[use.task];
    if (list.size() < 2 || selection->picks[use.task] >= list.size()) continue;
    if (std::find(open.begin(), open.end(), use.task) != open.end()) continue;
    open.push_back(use.task);
    decide::Point& p = points.emplace_back();
    p.name = problem.tasks[use.task].task.key;
    p.kind = decide::PointKind::kSchedule;
    for (std::int64_t f = 0; f < std::ssize(list); ++f) p.values.push_back({f});
    p.preferred = static_cast<std::int32_t>(selection->picks[use.task]);
  }
  std::vector<std::unique_ptr<decide::Sketch>> sketches;
  sketches.push_back(std::make_unique<decide::FreeSketch>("schedules", std::move(points)));
  const decide::Space space(std::move(sketches));
  TESSERA_TRY(const search::PolicyEntry* entry, search::find_policy("local"));
  const auto policy = entry->make(space, search::no_scorer(), {.seed = options_.seed});
  double share = 1;  // of the current one, against the first
  const search::Observation first{space.preferred(), share, false};
  policy->observe({&first, 1});
  for (int swapped = 0, failed = 0; failed < kPatience && swapped < kMostSwaps; ++swapped) {
    const double build_s = (*current)->model.build_ms / 1000;
    if (session_.remaining_s() < 3 * build_s + 5 || session_.interrupted()) break;
    const std::vector<decide::Candidate> next = policy->propose(1);
    if (next.empty()) break;
    Selection variant = *selection;
    for (std::size_t i = 0; i < open.size(); ++i)
      variant.picks[open[i]] = static_cast<std::size_t>(next[0].choice[i]);
    TESSERA_TRY(Built built, build(subject, &variant));
    TESSERA_TRY(const double error, error_of(subject, built));
    bool faster = error <= 1;
    double ratio = 0;  // 0: it computes something else
    for (int round = 0; round < kConfirmations && faster; ++round) {
      TESSERA_TRY(const std::vector<runtime::Samples> samples,
                  time_side_by_side({current->get(), &built}));
      const double noise = samples[0].trusted && samples[1].trusted ? kLeastGain : kDisturbed;
      ratio = samples[1].median_s() / samples[0].median_s();
      faster = ratio < 1 - noise;
    }
    const search::Observation seen{next[0], ratio * share, false};
    policy->observe({&seen, 1});
    failed = faster ? 0 : failed + 1;
    session_.report_progress(TuneProgress::Phase::kWholeModel, open[0]);
    if (!faster) continue;
    share *= ratio;
    *selection = variant;
    *current = std::make_shared<const Built>(std::move(built));
  }
  return {};
}

Result<plan::Plan> WholeModels::plan(const Selection& selection) const {
  const TuneProblem& problem = session_.problem();
  plan::Plan plan;
  std::vector<std::string> names;
  for (const TuneSubject& s : problem.subjects) names.push_back(s.name);
  plan.model = fmt::format("{}", fmt::join(names, " "));
  plan.target = target::to_text(options_.target);
  plan.threads = options_.measure.threads;
  plan.decisions = decisions(selection);
  const auto add = [&](const task::Task& task) -> Result<void> {
    // A default schedule takes as long to make as a space: those that the budget did not reach are
    // left out, and whoever builds with the plan makes them.
    const auto known = task_of_key_.find(task.key);
    if (known != task_of_key_.end() && !session_.reached(known->second)) return {};
    plan::PlanEntry entry;
    entry.name = task.name;
    if (const Finalist* f = finalist(task.key, selection)) {
      entry.schedule = f->schedule;
      entry.candidate = f->candidate;
      entry.seconds = f->seconds;
      entry.earlier = !f->now;
    } else {
      TESSERA_TRY(const schedule::Schedule steps,
                  space::default_schedule(task.dag, options_.target));
      entry.schedule = schedule::to_text(steps);
    }
    plan.tasks[task.key] = std::move(entry);
    return {};
  };
  for (std::size_t i = 0; i < problem.subjects.size(); ++i) {
    if (problem.subjects[i].is_op) continue;
    TESSERA_TRY(const task::PlannedGraph model, planned(i, &selection, /*shapes_only=*/true));
    for (const plan::Decided& d : model.decided) plan.decisions[d.point.name] = d.text();
    for (const task::Task& task : model.tasks.tasks) TESSERA_DO(add(task));
  }
  const auto add_op_uses = [&](const std::vector<TaskUse>& uses) -> Result<void> {
    for (const TaskUse& use : uses) {
      if (problem.subjects[use.subject].is_op) TESSERA_DO(add(problem.tasks[use.task].task));
    }
    return {};
  };
  TESSERA_DO(add_op_uses(problem.base));
  for (std::size_t i = 0; i < problem.points.size(); ++i)
    TESSERA_DO(add_op_uses(problem.points[i].of(selection.choice[i])));
  return plan;
}

}  // namespace tessera::app
