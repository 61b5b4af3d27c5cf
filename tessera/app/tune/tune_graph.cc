#include "tessera/app/tune/tune_graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "tessera/app/tune/cold_tasks.h"
#include "tessera/app/tune/final_choice.h"
#include "tessera/app/tune/plan_scorer.h"
#include "tessera/app/tune/side_by_side.h"
#include "tessera/app/tune/trial_records.h"
#include "tessera/app/tune/tune_session.h"
#include "tessera/app/tune/tune_whole.h"
#include "tessera/support/clock.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::app {
namespace {

using plan::Decisions;

// Shares of the budget by whose end the parts are over: plans are listed, every kernel is measured
// once, kernels are tuned and compared (level both), whole models are searched, and the best of
// them is taken apart. The rest is for the last comparison.
struct Shares {
  double list, survey, tune, finals, search, apart;
};
constexpr Shares kGraphShares = {0.08, 0.45, 0.45, 0.45, 0.85, 0.93};
constexpr Shares kUnjudgedShares = {0.03, 0.2, 0.2, 0.2, 0.85, 0.93};  // nobody asks for sums
constexpr Shares kBothShares = {0.05, 0.25, 0.55, 0.62, 0.88, 0.94};
// Plans that a policy proposes first and whose kernels are tuned, the rules' one included.
constexpr std::size_t kTunedPlans = 3;
// To judge a plan the model is rewritten: a policy looks at fewer than at schedules.
constexpr int kPopulation = 12, kGenerations = 2, kDraws = 12;
constexpr double kJudgeMostSeconds = 20, kJudgeShare = 0.04;
// Without a budget the search over whole models ends after so many plans without a gain.
constexpr int kPlanPatience = 24, kPlanPatienceInTime = 150;
// The fastest plans of earlier sessions that are measured again.
constexpr std::size_t kMeasuredAgain = 2;
// A plan must gain this much to count: less is noise. Plans are compared by their fast samples,
// which other programs on the machine disturb least.
constexpr double kLeastPlanGain = 0.003;
// Comparisons of a plan that seems faster all along. One that is this much slower at once is timed
// no more.
constexpr int kRounds = 4;
constexpr double kMuchSlower = 0.05;
// Schedules that gain this much alone are kept where all together do not gain.
constexpr double kMuch = 0.1;
// Plans that seemed fastest and are compared with each other at the end.
constexpr std::size_t kFast = 3;
// What is read between two calls of a kernel that is timed as in a model, at most.
constexpr std::int64_t kMostEvicted = 64 << 20;
// Rounds in which the fastest few take turns.
constexpr int kConfirm = 3;

void take_less(double* least, double value) { *least = std::min(*least, value); }

class GraphTuning {
 public:
  GraphTuning(const TuneOptions& options, const TuneCallbacks& callbacks)
      : both_(options.level == TuneLevel::kBoth),
        shares_(both_               ? kBothShares
                : unjudged(options) ? kUnjudgedShares
                                    : kGraphShares),
        kernel_options_(options),
        callbacks_(callbacks),
        start_(Clock::now()) {
    kernel_options_.target = target::code_target(options.target, options.measure.threads);
    options_ = kernel_options_;
    options_.trials = 0;
    options_.trials_per_task = 1;
    // Many kernels are measured once each.
    const measure::MeasureOptions survey = measure::survey_options();
    options_.measure.min_samples = survey.min_samples;
    options_.measure.max_samples = survey.max_samples;
    options_.measure.sample_s = survey.sample_s;
    options_.measure.trial_limit_s = survey.trial_limit_s;
    // Default schedules are what runs without tuning, and whole models are checked: to compute the
    // right outputs of every kernel takes longer than all else.
    options_.measure.check_results = false;
  }

  Result<TuneResult> run(const target::Target& machine) {
    const TuneSubject& subject = options_.subjects[0];
    TESSERA_TRY(imported_, import_undecided(subject.name, subject.compile));
    // To store between the parts of a kernel gained nothing alone in any search so far.
    TESSERA_TRY(task::PlanSpace space, task::PlanSpace::make(imported_, passes_for(subject.compile),
                                                             {}, {decide::PointKind::kFusion}));
    costs_.emplace(std::move(space));
    TESSERA_TRY(policy_, search::find_policy(options_.plan_policy));
    if (options_.target.is_gpu()) costs_->run_side_by_side();
    TESSERA_DO(visit_neighbours(*costs_, [this] { return over(shares_.list); }));
    TESSERA_TRY(rules_, costs_->tasks_of({}));
    if (costs_->tasks().empty()) {
      return make_error(ErrorCode::kUnsupported, "{}: there is no kernel to tune", subject.name);
    }
    TESSERA_DO(make_scorer());
    if (!options_.target.is_gpu()) {
      TESSERA_TRY(const bool warm, known_warm());
      if (!warm) time_cold();
    }
    if (both_ && options_.database.empty()) TESSERA_DO(keep_records());
    TESSERA_TRY(session_, TuneSession::start(options_, callbacks_, problem({}), start_));
    TESSERA_TRY(result_.stopped_by, session_->search(until_s(shares_.survey)));
    learn_seconds({});
    result_.subjects.push_back({.name = subject.name});
    result_.graph.points = std::ssize(costs_->space().rules());
    result_.graph.tasks = std::ssize(costs_->tasks());
    if (both_ && timed() && !interrupted()) TESSERA_DO(tune_kernels());
    // Where the budget ended before the rules' own kernels had times, their plan is what is left.
    if (timed()) {
      TESSERA_DO(choose(machine));
    } else {
      result_.state = interrupted() ? TuneState::kInterrupted : TuneState::kNoMeasurement;
    }
    if (scorer_) result_.graph.judged = scorer_->scored();
    end_session();
    result_.times.total = session_->elapsed_s();
    return std::move(result_);
  }

 private:
  // Schedules that `--level kernel` found, with warm caches or constants in memory, count beside
  // times of that kind only.
  Result<bool> known_warm() const {
    TESSERA_TRY(const TrialRecords known,
                TrialRecords::look({options_.database, options_.subjects, options_.target,
                                    options_.measure.threads, options_.seed, options_.command}));
    bool warm = false;
    for (const auto& [key, count] : *rules_) {
      TESSERA_DO(known.visit(key, [&](const record::Record& r) {
        const bool timed = r.outcome == "ok" && r.seconds > 0;
        warm = warm || (timed && r.evicted_bytes == 0 && !r.unchecked);
      }));
      if (warm) break;
    }
    return warm;
  }

  // Between two runs of a kernel a model touches what all of its kernels read and write: that much
  // leaves the caches.
  void time_cold() {
    double touched = 0;
    for (const auto& [key, count] : *rules_) {
      const te::Dag& dag = costs_->find(key)->dag;
      for (const te::Input& input : dag.inputs) touched += count * bytes_of(input.buffer);
      for (const ir::Buffer& output : dag.outputs) touched += count * bytes_of(output);
    }
    const std::int64_t least = 2 * options_.target.l2_bytes;
    for (TuneOptions* o : {&options_, &kernel_options_}) {
      o->measure.cold_caches = true;
      o->measure.evicted_bytes =
          std::clamp(static_cast<std::int64_t>(touched), least, std::max(kMostEvicted, least));
    }
  }
  static double bytes_of(const ir::Buffer& b) {
    return static_cast<double>(b.size() * size_bytes(b->dtype));
  }

  // Records carry times from one session to the next where the caller keeps none.
  Result<void> keep_records() {
    TESSERA_TRY(TemporaryFolder folder, TemporaryFolder::make("records"));
    options_.database = kernel_options_.database = folder.path() + "/records.db";
    own_records_ = std::move(folder);
    return {};
  }
  bool interrupted() const { return callbacks_.interrupted && callbacks_.interrupted(); }
  double elapsed_s() const { return seconds_since(start_); }
  double budget_s() const { return options_.budget_s; }
  bool over(double share) const {
    return interrupted() || (budget_s() > 0 && elapsed_s() > share * budget_s());
  }
  bool searched() const {
    const bool enough = options_.plans > 0 && result_.graph.measured >= options_.plans;
    return enough || over(shares_.search);
  }
  std::optional<double> until_s(double share) const {
    return budget_s() > 0 ? std::optional(share * budget_s()) : std::nullopt;
  }
  bool timed() const {
    return std::any_of(finalists_.begin(), finalists_.end(),
                       [](const std::vector<Finalist>& f) { return !f.empty(); });
  }

  static bool unjudged(const TuneOptions& options) {
    return options.judges == std::vector<std::string>{"none"};
  }
  bool unjudged() const { return unjudged(options_); }

  Result<void> make_scorer() {
    if (unjudged()) return {};
    if (options_.judges.empty()) {
      scorer_ = std::make_unique<SumScorer>(*costs_);
      return {};
    }
    TESSERA_TRY(estimates_, PlanEstimates::make(options_.learner.pretrained, options_.target,
                                                options_.measure.threads));
    TESSERA_TRY(scorer_, NetworkScorer::make(imported_, passes_for(options_.subjects[0].compile),
                                             options_.judges, *costs_, estimates_));
    return {};
  }

  // What proposes plans; language models write about kernels.
  std::unique_ptr<search::Policy> start_policy() {
    search::PolicyOptions o = options_.policy_options;
    o.seed = options_.seed;
    o.language = nullptr;
    if (o.population == 0) o.population = kPopulation;
    if (o.generations == 0) o.generations = kGenerations;
    o.draws = kDraws;
    const double most =
        budget_s() > 0 ? std::min(kJudgeMostSeconds, kJudgeShare * budget_s()) : kJudgeMostSeconds;
    o.late = [this, until = elapsed_s() + most] { return interrupted() || elapsed_s() > until; };
    // Plans about whose kernels little is known are worth a look.
    if (o.acquisition == "mean") o.acquisition = "ucb";
    search::Scorer& scorer = scorer_ && policy_->uses_model ? *scorer_ : search::no_scorer();
    return policy_->make(costs_->space(), scorer, o);
  }

  // Kernels of all plans, or those given; what the rules do not take is measured beside the others.
  TuneProblem problem(const std::set<std::string>& keys) const {
    TuneProblem p;
    p.subjects = options_.subjects;
    p.imported.push_back(imported_);
    for (const task::Task& task : costs_->tasks()) {
      const auto count = rules_->find(task.key);
      if (!keys.empty() && count == rules_->end() && !keys.contains(task.key)) continue;
      const TaskUse use = {p.tasks.size(), 0, count == rules_->end() ? 1 : count->second};
      (count == rules_->end() ? p.others : p.base).push_back(use);
      p.tasks.push_back({task, ""});
    }
    return p;
  }

  // The fastest schedules of every kernel; those in `compared` are timed side by side first.
  void learn_seconds(const std::set<std::string>& compared) {
    std::map<std::string, double> seconds;
    finalists_.clear();
    for (std::size_t t = 0; t < session_->tasks(); ++t) {
      const std::string& key = session_->problem().tasks[t].task.key;
      const bool side_by_side = compared.contains(key) && !over(shares_.finals);
      finalists_.push_back(session_->finals(t, side_by_side ? TuneSession::kFinalists : 0));
      if (!finalists_.back().empty()) seconds[key] = finalists_.back()[0].seconds;
    }
    costs_->set_seconds(std::move(seconds));
    if (costs_->side_by_side()) learn_shares();
  }

  // Of the device that kernels keep busy, with their fastest schedules.
  void learn_shares() {
    std::map<std::string, double> shares;
    for (std::size_t t = 0; t < session_->tasks(); ++t) {
      if (finalists_[t].empty()) continue;
      const task::Task& task = session_->problem().tasks[t].task;
      const Result<schedule::Schedule> schedule =
          schedule::schedule_from_text(finalists_[t][0].schedule);
      if (schedule) shares[task.key] = device_share(task.dag, *schedule, options_.target);
    }
    costs_->set_device_shares(std::move(shares));
  }

  void end_session() {
    session_->end(result_.state);
    const TuneResult before = result_;
    session_->describe(&result_);
    result_.trials = std::max(result_.trials, before.trials);
    result_.times.whole_model = before.times.whole_model;
  }

  // A session for the kernels of the rules' plan and of those that promise most.
  Result<void> tune_kernels() {
    std::set<std::string> known, tuned;
    for (const auto& [key, count] : *rules_) tuned.insert(key);
    std::vector<decide::Candidate> plans = start_policy()->propose(kTunedPlans);
    plans.push_back(earlier());
    for (const decide::Candidate& plan : plans) {
      const Result<const PlanTasks*> tasks = costs_->tasks_of(costs_->space().decisions(plan));
      if (!tasks) continue;
      for (const auto& [key, count] : **tasks) tuned.insert(key);
    }
    for (std::size_t t = 0; t < session_->tasks(); ++t) {
      if (!finalists_[t].empty()) known.insert(session_->problem().tasks[t].task.key);
    }
    known.insert(tuned.begin(), tuned.end());
    kernel_options_.tasks.assign(tuned.begin(), tuned.end());
    end_session();
    session_.reset();
    TESSERA_TRY(session_, TuneSession::start(kernel_options_, callbacks_, problem(known), start_));
    TESSERA_TRY(result_.stopped_by, session_->search(until_s(shares_.tune)));
    const double begin = elapsed_s();
    learn_seconds(tuned);
    result_.times.finals = elapsed_s() - begin;
    return {};
  }

  // An earlier plan, as far as it still can be; the rules' where there is none.
  decide::Candidate earlier() const { return costs_->space().candidate(options_.start); }

  // The last part: whole models.
  Result<void> choose(const target::Target& machine) {
    const double begin = elapsed_s();
    session_->report_progress(TuneProgress::Phase::kWholeModel, 0, true);
    WholeModels& whole = whole_.emplace(options_, *session_, finalists_);
    Selection rules = {{}, std::vector<std::size_t>(finalists_.size(), 0), {}};
    // Default schedules were timed unchecked, and all plans are compared with the untuned model.
    TESSERA_TRY(bool sane, whole.check_untuned(0, &result_.subjects[0]));
    if (sane) {
      TESSERA_TRY(sane, whole.verify(&rules, &result_.subjects));
    }
    if (!sane) {
      result_.state = TuneState::kRejected;
      return {};
    }
    TESSERA_TRY(auto before, whole.selected(0, rules));
    if (both_) TESSERA_DO(check_schedules(whole, &rules, &before));
    rules_selection_ = best_selection_ = rules;
    shares_by_kernels_ = {{runs_of(*rules_, {}), 1.0}};
    best_ = before_ = before;
    if (costs_->side_by_side()) {
      TESSERA_TRY(const std::vector<runtime::Samples> once,
                  whole.time_side_by_side({before.get()}));
      costs_->calibrate({}, once[0].p10_s());
    }
    TESSERA_DO(search_plans(whole));
    TESSERA_DO(narrow(whole));
    TESSERA_DO(take_apart(whole));
    TESSERA_DO(confirm(whole));
    if (interrupted()) result_.state = TuneState::kInterrupted;
    TESSERA_TRY(result_.plan, whole.plan(best_selection_));
    result_.plan.target = target::to_text(machine);
    describe(best_selection_);
    result_.times.whole_model = elapsed_s() - begin;
    return {};
  }

  // One trial after the other: a plan that the policy proposes, and its time as a share of the
  // rules' plan's.
  Result<void> search_plans(WholeModels& whole) {
    const std::unique_ptr<search::Policy> policy = start_policy();
    const auto try_plan = [&](const decide::Candidate& plan, const char* by) -> Result<void> {
      TESSERA_TRY(const double share, measure(whole, plan, by));
      // Not finite: it cannot be built, or computes something else.
      const search::Observation seen{plan, std::isfinite(share) ? share : 0, false};
      policy->observe({&seen, 1});
      if (scorer_) scorer_->observe(plan, share);
      return {};
    };
    const decide::Candidate rules = costs_->space().preferred(), start = earlier();
    const search::Observation known{rules, 1, false};
    policy->observe({&known, 1});
    if (start != rules && !interrupted()) TESSERA_DO(try_plan(start, "earlier plan"));
    TESSERA_DO(resume(
        *policy, [&](const decide::Candidate& plan) { return try_plan(plan, "earlier plan"); }));
    const int patience = budget_s() > 0 ? kPlanPatienceInTime : kPlanPatience;
    for (int vain = 0; vain < patience;) {
      // The first plan is measured whatever the budget says: it was paid for.
      if (interrupted() || (result_.graph.measured > 0 && searched())) break;
      const std::vector<decide::Candidate> next = policy->propose(1);
      if (next.empty()) break;
      const double last = best_share_;
      TESSERA_DO(try_plan(next[0], policy_->name));
      vain = best_share_ < last ? 0 : vain + 1;
    }
    return {};
  }

  // Schedules may be faster one by one and slower together: then those that gain most are tried,
  // or all are given up, before plans are searched.
  Result<void> check_schedules(WholeModels& whole, Selection* rules,
                               std::shared_ptr<const WholeModels::Built>* before) {
    TESSERA_TRY(const auto untuned, whole.untuned(0));
    Selection few = *rules, none = with_default_schedules(*rules);
    for (std::size_t t = 0; t < few.picks.size(); ++t) {
      if (!gains_much(t)) few.picks[t] = kDefaultPick;
    }
    std::vector<Selection> selections = {*rules, none};
    std::vector<std::shared_ptr<const WholeModels::Built>> models = {*before, untuned};
    if (few != *rules && few != none) {
      TESSERA_TRY(const bool right, whole.verify(&few, &result_.subjects));
      if (right) {
        TESSERA_TRY(auto built, whole.selected(0, few));
        selections.push_back(few);
        models.push_back(std::move(built));
      }
    }
    std::vector<double> seconds(models.size(), 0);
    std::vector<const WholeModels::Built*> timed;
    for (const auto& m : models) timed.push_back(m.get());
    for (int round = 0; round < kConfirm; ++round) {
      TESSERA_TRY(const std::vector<runtime::Samples> samples, whole.time_side_by_side(timed));
      for (std::size_t i = 0; i < samples.size(); ++i) seconds[i] += samples[i].p10_s();
    }
    const auto best = static_cast<std::size_t>(std::min_element(seconds.begin(), seconds.end()) -
                                               seconds.begin());
    if (best == 0) return {};
    session_->note(fmt::format("{}: tuned schedules are slower as a whole; {}",
                               result_.subjects[0].name,
                               best == 1 ? "default ones stay" : "those that gain most stay"));
    *rules = selections[best];
    *before = models[best];
    return {};
  }

  static Selection with_default_schedules(Selection selection) {
    std::fill(selection.picks.begin(), selection.picks.end(), kDefaultPick);
    return selection;
  }
  bool gains_much(std::size_t task) const {
    const std::vector<Finalist>& f = finalists_[task];
    const double default_s = session_->describe(task).before_s;
    return !f.empty() && default_s > 0 && f[0].seconds < (1 - kMuch) * default_s;
  }

  // The best with the decisions of one kind alone, which says what each kind is worth.
  Result<void> take_apart(WholeModels& whole) {
    std::map<std::string, Decisions> by_family;
    for (const auto& [key, value] : best_selection_.given) by_family[family_of(key)][key] = value;
    if (by_family.size() < 2) return {};
    for (const auto& [family, decisions] : by_family) {
      if (over(shares_.apart)) break;
      TESSERA_DO(measure(whole, costs_->space().candidate(decisions), family + " alone"));
    }
    return {};
  }

  // Its time as a share of the rules' plan's; not finite where it cannot be built or computes
  // something else. What is faster than the best is the best from then on.
  Result<double> measure(WholeModels& whole, const decide::Candidate& plan,
                         const std::string& found_by) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    const Decisions decisions = costs_->space().decisions(plan);
    const Result<const PlanTasks*> kernels = costs_->tasks_of(decisions);
    if (!kernels) return kNone;
    // Decisions that lead to the same kernels take the same time.
    const auto [same, fresh] = shares_by_kernels_.try_emplace(runs_of(**kernels, decisions), kNone);
    if (!fresh) return same->second;
    Selection selection = rules_selection_;
    selection.given = decisions;
    std::vector<SubjectReport> checked = result_.subjects;
    const Result<bool> right = whole.verify(&selection, &checked);
    // Decisions that do not fit each other are no plan: not an error of the model.
    if (!right || !*right) {
      keep_plan({decisions, found_by, {}, 0, 0, right ? "other outputs" : right.error().message});
      return kNone;
    }
    TESSERA_TRY(const auto built, whole.selected(0, selection));
    // Beside the rules' plan too: errors of one comparison after the other would add up.
    std::vector<const WholeModels::Built*> models = {built.get(), best_.get()};
    if (best_ != before_) models.push_back(before_.get());
    std::vector<double> seconds(models.size(), kNone), taken;
    // What seems faster is timed again: noise seems so too. Who comes first changes, so that none
    // gains by its place.
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::size_t> order(models.size());
      std::iota(order.begin(), order.end(), 0);
      std::rotate(order.begin(), order.begin() + round % std::ssize(order), order.end());
      std::vector<const WholeModels::Built*> turns;
      for (const std::size_t i : order) turns.push_back(models[i]);
      TESSERA_TRY(const std::vector<runtime::Samples> samples, whole.time_side_by_side(turns));
      for (std::size_t i = 0; i < order.size(); ++i)
        take_less(&seconds[order[i]], samples[i].p10_s());
      const std::vector<double>& own =
          samples[static_cast<std::size_t>(std::find(order.begin(), order.end(), 0u) -
                                           order.begin())]
              .call_s;
      taken.insert(taken.end(), own.begin(), own.end());
      if (seconds[0] > (round == 0 ? 1 + kMuchSlower : 1 - kLeastPlanGain) * seconds[1]) break;
    }
    ++result_.graph.measured;
    const bool kept = seconds[0] < (1 - kLeastPlanGain) * seconds[1];
    const double share = same->second = seconds[0] / seconds.back();
    const double judged = costs_->expected_s(decisions) / costs_->expected_s({});
    result_.graph.plans.push_back({found_by, decisions.size(), std::isfinite(judged) ? judged : 0,
                                   seconds[1], seconds[0], share, kept});
    keep_plan({decisions, found_by, std::move(taken), seconds[0], seconds.back(), ""});
    session_->report_progress(TuneProgress::Phase::kWholeModel, 0, true);
    if (share < 1) keep_fast({share, selection, built});
    if (!kept) return share;
    best_share_ = share;
    best_selection_ = selection;
    best_ = built;
    return share;
  }

  // Kernels, and how they follow each other.
  using Runs = std::pair<PlanTasks, std::string>;
  static Runs runs_of(const PlanTasks& kernels, const Decisions& decisions) {
    const auto launches = decisions.find(plan::info(decide::PointKind::kLaunch).family);
    return {kernels, launches == decisions.end() ? "" : launches->second};
  }

  void keep_plan(const PlanTrial& trial) {
    if (!session_->records().add_plan(imported_, trial))
      session_->note("the plan is not kept: " + session_->records().error());
  }

  // What earlier sessions measured is not measured again, but for the fastest, which come first.
  Result<void> resume(search::Policy& policy,
                      const std::function<Result<void>(const decide::Candidate&)>& again) {
    TESSERA_TRY(std::vector<PlanTrial> earlier, session_->records().earlier_plans(imported_));
    std::stable_sort(earlier.begin(), earlier.end(),
                     [](const PlanTrial& a, const PlanTrial& b) { return a.share() < b.share(); });
    std::set<PlanTasks> timed;
    for (const PlanTrial& trial : earlier) {
      const Result<const PlanTasks*> kernels = costs_->tasks_of(trial.decisions);
      if (!kernels || timed.contains(**kernels)) continue;
      const decide::Candidate plan = costs_->space().candidate(trial.decisions);
      if (timed.size() < kMeasuredAgain && trial.share() < 1 && !interrupted()) {
        timed.insert(**kernels);
        TESSERA_DO(again(plan));
      } else if (shares_by_kernels_.try_emplace(runs_of(**kernels, trial.decisions), trial.share())
                     .second) {
        const bool built = std::isfinite(trial.share());
        const search::Observation seen{plan, built ? trial.share() : 0, false};
        policy.observe({&seen, 1});
        if (scorer_) scorer_->observe(plan, trial.share());
      }
    }
    return {};
  }

  struct Fast {
    double share = 1;
    Selection selection;
    std::shared_ptr<const WholeModels::Built> model;
  };
  void keep_fast(Fast plan) {
    const auto slower = std::find_if(fast_.begin(), fast_.end(),
                                     [&](const Fast& f) { return f.share > plan.share; });
    fast_.insert(slower, std::move(plan));
    if (fast_.size() > kFast) fast_.pop_back();
  }

  // The fastest of many is one that noise made seem so: the first few are compared with each other.
  Result<void> narrow(WholeModels& whole) {
    if (fast_.size() < 2) return {};
    std::vector<const WholeModels::Built*> models;
    for (const Fast& f : fast_) models.push_back(f.model.get());
    std::vector<double> seconds(models.size(), std::numeric_limits<double>::infinity());
    for (int round = 0; round < kConfirm; ++round) {
      TESSERA_TRY(const std::vector<runtime::Samples> samples, whole.time_side_by_side(models));
      for (std::size_t i = 0; i < models.size(); ++i) take_less(&seconds[i], samples[i].p10_s());
    }
    const Fast& best = fast_[static_cast<std::size_t>(
        std::min_element(seconds.begin(), seconds.end()) - seconds.begin())];
    best_share_ = best.share;
    best_selection_ = best.selection;
    best_ = best.model;
    return {};
  }

  // Once more, what was found beside what was there: the rules' plan with the schedules of the
  // search and with default ones. What noise does not explain is kept, and told by times of its
  // own.
  Result<void> confirm(WholeModels& whole) {
    SubjectReport& report = result_.subjects[0];
    std::vector<Selection> selections = {rules_selection_};
    std::vector<std::shared_ptr<const WholeModels::Built>> models = {before_};
    const Selection plain = with_default_schedules(rules_selection_);
    const bool tuned = both_ || std::any_of(finalists_.begin(), finalists_.end(),
                                            [](const std::vector<Finalist>& f) {
                                              return !f.empty() && !f[0].is_default;
                                            });
    if (tuned) {
      selections.push_back(plain);
      TESSERA_TRY(models.emplace_back(), whole.untuned(0));
    }
    const std::size_t were = models.size();
    const bool found = !best_selection_.given.empty();
    if (found) {
      selections.push_back(best_selection_);
      models.push_back(best_);
      Selection untuned = with_default_schedules(best_selection_);
      std::vector<SubjectReport> checked = result_.subjects;
      const Result<bool> right = tuned && untuned != best_selection_
                                     ? whole.verify(&untuned, &checked)
                                     : Result<bool>(false);
      if (right && *right) {
        TESSERA_TRY(models.emplace_back(), whole.selected(0, untuned));
        selections.push_back(std::move(untuned));
      }
    }
    std::vector<const WholeModels::Built*> timed;
    for (const auto& m : models) timed.push_back(m.get());
    TESSERA_TRY(const std::vector<runtime::Samples> samples, whole.time_side_by_side(timed));
    TESSERA_TRY(const FinalChoice choice,
                choose_final(samples, were, kLeastPlanGain, [&](std::size_t a, std::size_t b) {
                  return whole.compare({timed[a], timed[b]});
                }));
    report.before_s = choice.before_s;
    report.after_s = choice.after_s;
    report.trusted = choice.trusted;
    if (tuned) result_.graph.untuned_s = samples[1].median_s();
    if (found && choice.kept < were) {
      session_->note(fmt::format("{}: not faster as a whole; the plan keeps the rules' decisions",
                                 report.name));
    }
    best_selection_ = selections[choice.kept];
    return {};
  }

  std::string family_of(const std::string& key) const {
    for (const decide::Point& p : costs_->space().points()) {
      if (p.name == key) return plan::info(p.kind).family;
    }
    return {};
  }

  void describe(const Selection& best) {
    for (const auto& [key, value] : best.given) {
      result_.graph.changes.push_back({family_of(key), key, value});
    }
    const Result<const PlanTasks*> plan = costs_->tasks_of(best.given);
    if (!plan) return;
    for (std::size_t t = 0; t < session_->tasks(); ++t) {
      const auto used = (*plan)->find(session_->problem().tasks[t].task.key);
      if (used == (*plan)->end()) continue;
      TaskReport r = session_->describe(t);
      r.used = true;
      r.weight = used->second;
      if (best.picks[t] == kDefaultPick) {
        r.after_s = r.before_s;
      } else if (!finalists_[t].empty()) {
        const Finalist& f = finalists_[t][0];
        r.after_s = f.seconds;
        r.now = f.now;
        r.estimated = f.is_estimate();
        r.candidate = f.candidate;
      }
      result_.tasks.push_back(std::move(r));
    }
    std::stable_sort(result_.tasks.begin(), result_.tasks.end(),
                     [](const TaskReport& a, const TaskReport& b) {
                       return a.after_s * a.weight > b.after_s * b.weight;
                     });
  }

  bool both_;
  Shares shares_;
  std::optional<TemporaryFolder> own_records_;
  TuneOptions options_, kernel_options_;  // of the sessions: survey and tuning
  const TuneCallbacks& callbacks_;
  Clock::time_point start_;
  graph::Graph imported_;
  std::optional<PlanCosts> costs_;
  PlanEstimates estimates_;
  std::unique_ptr<PlanScorer> scorer_;  // none: plans are measured as they are proposed
  const search::PolicyEntry* policy_ = nullptr;
  const PlanTasks* rules_ = nullptr;
  std::unique_ptr<TuneSession> session_;
  std::vector<std::vector<Finalist>> finalists_;
  Selection rules_selection_, best_selection_;
  // Models hold memory of the device that is opened here, and go before it.
  std::optional<WholeModels> whole_;
  std::shared_ptr<const WholeModels::Built> before_, best_;
  std::vector<Fast> fast_;  // of the plans that were measured, fastest first
  double best_share_ = 1;
  std::map<Runs, double> shares_by_kernels_;  // of the plans that were measured
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

}  // namespace tessera::app
