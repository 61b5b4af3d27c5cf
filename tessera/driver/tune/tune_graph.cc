#include "tessera/driver/tune/tune_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tessera/driver/tune/plan_search.h"
#include "tessera/driver/tune/tune_session.h"
#include "tessera/driver/tune/tune_whole.h"

namespace tessera::driver {
namespace {

using plan::Decisions;

// Of the budget: plans are listed until the first, kernels measured until the second (a session
// keeps a part of what it has for its end), plans judged until the third.
constexpr double kListUntil = 0.12, kMeasureUntil = 0.68, kJudgeUntil = 0.72;
constexpr double kJudgeMostSeconds = 20;
// Plans that are measured as whole models, beside the best with one kind of decisions alone.
constexpr std::size_t kPlans = 4;
// A plan must gain this much to count: less is noise, more so where times were disturbed.
constexpr double kLeastGain = 0.003, kDisturbed = 0.02;

std::string family_of(const std::vector<plan::Decided>& points, const std::string& key) {
  for (const plan::Decided& d : points) {
    if (d.point.key == key) return plan::info(d.point.kind).family;
  }
  return {};
}

class GraphTuning {
 public:
  GraphTuning(const TuneOptions& options, const TuneCallbacks& callbacks)
      : options_(options), callbacks_(callbacks), start_(TuneSession::Clock::now()) {
    // Sessions measure kernels: what they may spend ends before whole models are timed.
    options_.target = target::code_target(options.target, options.measure.threads);
    options_.trials = 0;
    // Many kernels are measured once each.
    const measure::MeasureOptions survey = measure::survey_options();
    options_.measure.min_samples = survey.min_samples;
    options_.measure.max_samples = survey.max_samples;
    options_.measure.sample_s = survey.sample_s;
    options_.measure.trial_limit_s = survey.trial_limit_s;
    options_.trials_per_task = std::max<std::int64_t>(1, options.trials_per_task);
    budget_s_ = options.budget_s;
    if (budget_s_ > 0) options_.budget_s = kMeasureUntil * budget_s_;
  }

  Result<TuneResult> run(const target::Target& machine) {
    const TuneSubject& subject = options_.subjects[0];
    LoadOptions plain = subject.load;
    plain.optimize = false;
    TESSERA_TRY(graph::Graph imported, load_graph(subject.name, plain));
    TESSERA_TRY(costs_, PlanCosts::make(imported, subject.load.passes, options_.model.partition));
    TESSERA_DO(visit_neighbours(*costs_, [this] { return over(kListUntil); }));
    TESSERA_TRY(rules_, costs_->tasks_of({}));
    TESSERA_TRY(points_, costs_->points());
    if (costs_->tasks().empty()) {
      return make_error(ErrorCode::kUnsupported, "there is no kernel to tune");
    }
    TESSERA_TRY(session_,
                TuneSession::start(options_, callbacks_, problem(std::move(imported)), start_));
    result_.stopped_by = session_->search();
    learn_seconds();
    result_.subjects.push_back({.name = subject.name});
    result_.graph.points = std::ssize(points_);
    result_.graph.tasks = std::ssize(costs_->tasks());
    // Where the budget ended before the rules' own kernels had times, their plan is what is left.
    const bool timed = std::any_of(finalists_.begin(), finalists_.end(),
                                   [](const std::vector<Finalist>& f) { return !f.empty(); });
    if (timed) {
      TESSERA_DO(choose(machine));
    } else {
      result_.state = interrupted() ? TuneState::kInterrupted : TuneState::kNoMeasurement;
    }
    result_.graph.judged = costs_->judged();
    session_->end(result_.state);
    session_->describe(&result_);
    result_.times.total = session_->elapsed_s();
    return std::move(result_);
  }

 private:
  bool interrupted() const { return callbacks_.interrupted && callbacks_.interrupted(); }
  double elapsed_s() const {
    return std::chrono::duration<double>(TuneSession::Clock::now() - start_).count();
  }
  bool over(double share) const {
    return interrupted() || (budget_s_ > 0 && elapsed_s() > share * budget_s_);
  }

  // All kernels of all plans; those that the rules do not take are measured beside the others.
  TuneProblem problem(graph::Graph imported) const {
    TuneProblem p;
    p.subjects = options_.subjects;
    p.imported.push_back(std::move(imported));
    for (const task::Task& task : costs_->tasks()) {
      const auto count = rules_->find(task.key);
      const TaskUse use = {p.tasks.size(), 0, count == rules_->end() ? 1 : count->second};
      (count == rules_->end() ? p.others : p.base).push_back(use);
      p.tasks.push_back({task, ""});
    }
    return p;
  }

  void learn_seconds() {
    std::map<std::string, double> seconds;
    for (std::size_t t = 0; t < session_->tasks(); ++t) {
      finalists_.push_back(session_->finals(t, false));
      if (finalists_.back().empty()) continue;
      seconds[session_->problem().tasks[t].task.key] = finalists_.back()[0].seconds;
    }
    costs_->set_seconds(std::move(seconds));
  }

  // The best plans that judging finds, then the best of them with the decisions of one kind alone,
  // which says what each kind is worth.
  std::vector<JudgedPlan> candidates() {
    const double until = std::min(elapsed_s() + kJudgeMostSeconds,
                                  budget_s_ > 0 ? kJudgeUntil * budget_s_ : INFINITY);
    std::vector<JudgedPlan> plans =
        search_plans(*costs_, {.seed = options_.seed, .keep = kPlans, .stop = [&] {
                                 return interrupted() || elapsed_s() > until;
                               }});
    if (plans.size() > kPlans) plans.resize(kPlans);
    if (plans.empty()) return plans;
    std::map<std::string, Decisions> by_family;
    for (const auto& [key, value] : plans[0].decisions)
      by_family[family_of(points_, key)][key] = value;
    if (by_family.size() < 2) return plans;
    for (auto& [family, decisions] : by_family) {
      const double seconds = costs_->seconds(decisions);
      plans.push_back({std::move(decisions), seconds, family + " alone"});
    }
    return plans;
  }

  // The last part: whole models.
  Result<void> choose(const target::Target& machine) {
    const std::vector<JudgedPlan> plans = candidates();
    const double begin = elapsed_s();
    session_->report_progress(TuneProgress::Phase::kWholeModel, 0, true);
    WholeModels whole(options_, *session_, finalists_);
    const Selection rules = {{}, std::vector<std::size_t>(finalists_.size(), 0), {}};
    Selection best = rules;
    TESSERA_TRY(const bool sane, whole.verify(&best, &result_.subjects));
    if (!sane) {
      result_.state = TuneState::kRejected;
      return {};
    }
    TESSERA_TRY(const WholeModels::Built before, whole.build(0, &rules));
    double best_share = 1;
    for (const JudgedPlan& p : plans) {
      // The first plan is measured whatever the budget says: it was paid for.
      if (interrupted() || (result_.graph.measured > 0 && over(0.95))) break;
      Selection selection = rules;
      selection.given = p.decisions;
      TESSERA_TRY(const double share, measure(whole, before, p, &selection));
      if (share >= best_share) continue;
      best_share = share;
      best = selection;
    }
    TESSERA_DO(confirm(whole, before, rules, &best));
    if (interrupted()) result_.state = TuneState::kInterrupted;
    TESSERA_TRY(result_.plan, whole.plan(best));
    result_.plan.target = target::to_text(machine);
    describe(best);
    result_.times.whole_model = elapsed_s() - begin;
    return {};
  }

  // Its time as a share of that before; 1 where it is no better, or computes something else.
  Result<double> measure(WholeModels& whole, const WholeModels::Built& before, const JudgedPlan& p,
                         Selection* selection) {
    std::vector<SubjectReport> checked = result_.subjects;
    TESSERA_TRY(const bool right, whole.verify(selection, &checked));
    if (!right) return 1.0;
    TESSERA_TRY(const WholeModels::Built built, whole.build(0, selection));
    TESSERA_TRY(const std::vector<runtime::Samples> samples,
                whole.time_side_by_side({&before, &built}, *selection));
    ++result_.graph.measured;
    const double before_s = samples[0].median_s(), after_s = samples[1].median_s();
    result_.graph.plans.push_back(
        {p.found_by, p.decisions.size(), p.seconds / costs_->seconds({}), before_s, after_s});
    session_->report_progress(TuneProgress::Phase::kWholeModel, 0, true);
    const double noise = samples[0].trusted && samples[1].trusted ? kLeastGain : kDisturbed;
    return after_s < (1 - noise) * before_s ? after_s / before_s : 1.0;
  }

  // Once more, the winner and what was: the times that are told. What does not hold is given up.
  Result<void> confirm(WholeModels& whole, const WholeModels::Built& before, const Selection& rules,
                       Selection* best) {
    SubjectReport& report = result_.subjects[0];
    TESSERA_TRY(const WholeModels::Built after, whole.build(0, best));
    TESSERA_TRY(const std::vector<runtime::Samples> samples,
                whole.time_side_by_side({&before, &after}, *best));
    report.before_s = samples[0].median_s();
    report.after_s = samples[1].median_s();
    report.trusted = samples[0].trusted && samples[1].trusted;
    if (!best->given.empty() && report.after_s < report.before_s) return {};
    if (!best->given.empty()) {
      session_->note(fmt::format("{}: not faster as a whole; the plan keeps the rules' decisions",
                                 report.name));
    }
    *best = rules;
    report.after_s = report.before_s;
    return {};
  }

  void describe(const Selection& best) {
    for (const auto& [key, value] : best.given) {
      result_.graph.changes.push_back({family_of(points_, key), key, value});
    }
    const Result<const PlanTasks*> plan = costs_->tasks_of(best.given);
    if (!plan) return;
    for (std::size_t t = 0; t < session_->tasks(); ++t) {
      const auto used = (*plan)->find(session_->problem().tasks[t].task.key);
      if (used == (*plan)->end()) continue;
      TaskReport r = session_->describe(t);
      r.used = true;
      r.weight = used->second;
      if (!finalists_[t].empty()) {
        r.after_s = finalists_[t][0].seconds;
        r.candidate = finalists_[t][0].candidate;
      }
      result_.tasks.push_back(std::move(r));
    }
    std::stable_sort(result_.tasks.begin(), result_.tasks.end(),
                     [](const TaskReport& a, const TaskReport& b) {
                       return a.after_s * a.weight > b.after_s * b.weight;
                     });
  }

  TuneOptions options_;
  const TuneCallbacks& callbacks_;
  TuneSession::Clock::time_point start_;
  double budget_s_ = 0;
  std::optional<PlanCosts> costs_;
  const PlanTasks* rules_ = nullptr;
  std::vector<plan::Decided> points_;
  std::unique_ptr<TuneSession> session_;
  std::vector<std::vector<Finalist>> finalists_;
  TuneResult result_;
};

}  // namespace

Result<TuneResult> tune_graph(const TuneOptions& options, const TuneCallbacks& callbacks) {
  if (options.subjects.size() != 1 || options.subjects[0].is_op) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--level graph and both tune the decisions of one model");
  }
  return GraphTuning(options, callbacks).run(options.target);
}

plan::Decisions fixed_decisions(const GraphReport& report) {
  const std::set<std::string> chosen_by_kernels = {plan::info(plan::PointKind::kAlgorithm).family,
                                                   plan::info(plan::PointKind::kMerge).family};
  plan::Decisions out;
  for (const GraphReport::Change& c : report.changes) {
    if (!chosen_by_kernels.contains(c.family)) out[c.key] = c.value;
  }
  return out;
}

}  // namespace tessera::driver
