#include "tessera/app/tune/tune_simulate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "tessera/app/tune/plan_scorer.h"
#include "tessera/app/tune/policy_run.h"
#include "tessera/app/tune/recorded_space.h"
#include "tessera/app/tune/recorded_task.h"
#include "tessera/app/tune/trial_records.h"
#include "tessera/support/hash.h"
#include "tessera/trials/record/database.h"

namespace tessera::app {
namespace {

// What a database knows of a task; nothing where its default was not recorded.
Result<std::optional<RecordedTask>> read_task(const record::Database& database,
                                              const task::Task& task,
                                              const SimulateOptions& options) {
  TESSERA_TRY(space::Space made,
              space::make_space(task.dag, options.target, {.sources = options.sources}));
  auto whole = std::make_unique<space::Space>(std::move(made));
  std::vector<RecordedTrial> trials;
  record::Filter filter;
  filter.task = task.key;
  TESSERA_TRY(filter.targets, targets_of_machine(database, options.target));
  filter.threads = options.threads;
  filter.format = "tessera";
  bool has_default = false;
  TESSERA_DO(database.visit(filter, [&](const record::Record& r) {
    RecordedTrial trial;
    Result<decide::Candidate> c = whole->parse(r.candidate);
    if (!c || !whole->check(*c)) return true;
    // Drawn for another number of cores, the same words may mean another schedule.
    const Result<schedule::Schedule> steps = whole->schedule(*c);
    const bool told = !r.schedule_digest.empty();
    if (!steps || (told && to_hex(hash_bytes(schedule::to_text(*steps))) != r.schedule_digest)) {
      return true;
    }
    if (!measure::outcome_from_text(r.outcome, &trial.outcome)) return true;
    if (trial.outcome == measure::Outcome::kWorkerLost) return true;
    trial.seconds = r.seconds;
    trial.candidate = std::move(c).value();
    has_default = has_default || trial.candidate == whole->preferred();
    trials.push_back(std::move(trial));
    return true;
  }));
  if (!has_default) return std::optional<RecordedTask>();
  return std::optional<RecordedTask>(
      RecordedTask(std::move(whole), std::move(trials), /*withheld=*/false));
}

// "annealing+diversity=1" once for each objective; policies without a model once.
Result<std::vector<PolicyVariant>> variants_of(const std::string& text,
                                               const SimulateOptions& options) {
  const PolicyVariant base{.policy_options = options.policy_options, .learner = options.learner};
  TESSERA_TRY(const PolicyVariant v, policy_variant(text, base, options.target));
  const bool has_own = v.learner.objective != base.learner.objective;
  if (!v.policy->uses_model || has_own) return std::vector<PolicyVariant>{v};
  std::vector<PolicyVariant> out;
  for (const std::string& objective : options.objectives) {
    out.push_back(v);
    out.back().label += " " + objective;
    out.back().learner.objective = objective;
  }
  return out;
}

Result<std::vector<double>> run_recorded(const RecordedTask& task, const PolicyVariant& variant,
                                         std::uint64_t seed, const SimulateOptions& options) {
  PolicyVariant own = variant;
  if (own.policy_options.language) {
    own.policy_options.language = whole_chances(task.whole(), *variant.policy_options.language);
  }
  std::vector<std::size_t> rounds;
  for (auto left = static_cast<std::size_t>(options.trials); left > 0; left -= rounds.back())
    rounds.push_back(std::min(options.batch, left));
  TESSERA_TRY(const std::vector<search::TrialResult> trials,
              run_policy(own, {.space = task.recorded(),
                               .measure = [&](auto c) { return task.results(c); },
                               .others = task.shuffled(seed),
                               .rounds = std::move(rounds),
                               .seed = seed}));
  std::vector<double> best;
  for (const search::TrialResult& t : trials) {
    const double before = best.empty() ? 0 : best.back();
    const bool faster =
        t.outcome == measure::Outcome::kOk && t.seconds > 0 && (before == 0 || t.seconds < before);
    best.push_back(faster ? t.seconds : before);
  }
  return best;
}

double best_after(const Curve& curve, std::int64_t trials) {
  if (curve.best_s.empty() || trials <= 0) return 0;
  return curve.best_s[std::min(static_cast<std::size_t>(trials), curve.best_s.size()) - 1];
}

// The fastest recorded time of each kernel of plans.
Result<std::map<std::string, double>> kernel_times(const TrialRecords& records,
                                                   const PlanCosts& costs) {
  std::map<std::string, double> out;
  for (const task::Task& task : costs.tasks()) {
    TESSERA_DO(records.visit(task.key, [&](const record::Record& r) {
      if (r.outcome != measure::to_text(measure::Outcome::kOk) || r.seconds <= 0) return;
      const auto [known, added] = out.try_emplace(task.key, r.seconds);
      known->second = std::min(known->second, r.seconds);
    }));
  }
  return out;
}

std::vector<double> best_so_far(std::vector<double> seconds) {
  for (std::size_t i = 1; i < seconds.size(); ++i)
    seconds[i] = std::min(seconds[i], seconds[i - 1]);
  return seconds;
}

}  // namespace

double Simulation::score(const std::string& policy, std::int64_t trials) const {
  double sum = 0;
  int count = 0;
  for (const Curve& curve : curves) {
    if (curve.policy != policy) continue;
    const auto task = std::find_if(tasks.begin(), tasks.end(),
                                   [&](const Task& t) { return t.key == curve.task; });
    const double best = best_after(curve, trials);
    // Nothing valid yet counts as a hundredth.
    sum += std::log(best > 0 ? std::min(1.0, task->best_s / best) : 0.01);
    ++count;
  }
  return count > 0 ? std::exp(sum / count) : 0;
}

std::int64_t Simulation::trials_to(const std::string& policy, double wanted) const {
  std::size_t longest = 0;
  for (const Curve& c : curves) longest = std::max(longest, c.best_s.size());
  for (std::size_t n = 1; n <= longest; ++n) {
    const auto trials = static_cast<std::int64_t>(n);
    if (score(policy, trials) >= wanted) return trials;
  }
  return 0;
}

Result<Simulation> simulate(const TuneProblem& problem, const SimulateOptions& wanted) {
  SimulateOptions options = wanted;
  options.target = target::code_target(wanted.target, wanted.threads);
  TESSERA_TRY(const record::Database database, record::Database::open_read_only(options.database));
  Simulation out;
  std::vector<PolicyVariant> variants;
  for (const std::string& text : options.policies) {
    TESSERA_TRY(const std::vector<PolicyVariant> made, variants_of(text, options));
    variants.insert(variants.end(), made.begin(), made.end());
  }
  for (const PolicyVariant& v : variants) out.policies.push_back(v.label);
  TESSERA_DO(load_pretrained(&variants));
  for (const TuneTask& t : problem.tasks) {
    TESSERA_TRY(const std::optional<RecordedTask> task, read_task(database, t.task, options));
    if (!task || task->timed() < options.min_records) continue;
    out.tasks.push_back({t.task.key, t.task.name, task->size(), task->best_s()});
    for (const PolicyVariant& v : variants) {
      for (int i = 0; i < options.seeds; ++i) {
        const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(i);
        Curve curve{t.task.key, t.task.name, v.label, seed, {}};
        TESSERA_TRY(curve.best_s, run_recorded(*task, v, seed, options));
        out.curves.push_back(std::move(curve));
      }
    }
  }
  if (!out.tasks.empty()) return out;
  return make_error(ErrorCode::kInvalidArgument,
                    "{} has no task of these with {} timed candidates for this machine and {} "
                    "threads",
                    options.database, options.min_records, options.threads);
}

Result<Simulation> simulate_plans(const TuneSubject& model, const SimulateOptions& wanted) {
  // Reading must not make a file.
  TESSERA_DO(record::Database::open_read_only(wanted.database));
  TESSERA_TRY(const TrialRecords records,
              TrialRecords::look({.database = wanted.database,
                                  .subjects = {model},
                                  .target = target::code_target(wanted.target, wanted.threads),
                                  .threads = wanted.threads}));
  TESSERA_TRY(const graph::Graph imported, import_undecided(model.name, model.compile));
  TESSERA_TRY(const std::vector<PlanTrial> trials, records.earlier_plans(imported));
  TESSERA_TRY(task::PlanSpace plans, task::PlanSpace::make(imported, passes_for(model.compile), {},
                                                           {decide::PointKind::kFusion}));
  PlanCosts costs(std::move(plans));
  TESSERA_DO(costs.tasks_of({}));
  const double rules_s = trials.empty() ? 0 : trials[0].rules_s;
  RecordedSpace::Times times = {{costs.space().preferred(), rules_s}};
  for (const PlanTrial& trial : trials) {
    // Plans of another version are no plans of this one.
    if (!costs.tasks_of(trial.decisions)) continue;
    times.try_emplace(costs.space().candidate(trial.decisions), trial.share() * rules_s);
  }
  if (times.size() < wanted.min_plans) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} has {} plans of {} for this machine and {} threads; {} are needed",
                      wanted.database, times.size(), model.name, wanted.threads, wanted.min_plans);
  }
  TESSERA_TRY(auto seconds, kernel_times(records, costs));
  costs.set_seconds(std::move(seconds));
  const RecordedSpace recorded(costs.space().points(), std::move(times));
  Simulation out;
  out.tasks.push_back(
      {model_key(imported, model.compile), model.name, recorded.size(), recorded.best_s()});
  for (const std::string& text : wanted.policies) {
    const PolicyVariant base{.policy_options = wanted.policy_options};
    TESSERA_TRY(const PolicyVariant v, policy_variant(text, base, wanted.target));
    out.policies.push_back(v.label);
    for (int i = 0; i < wanted.seeds; ++i) {
      search::PolicyOptions options = v.policy_options;
      options.seed = wanted.seed + static_cast<std::uint64_t>(i);
      options.language = nullptr;  // language models write about kernels
      SumScorer scorer(costs);
      search::Scorer& used = v.policy->uses_model ? scorer : search::no_scorer();
      out.curves.push_back({out.tasks[0].key, model.name, v.label, options.seed,
                            best_so_far(recorded.search(*v.policy, used, options,
                                                        static_cast<std::size_t>(wanted.trials)))});
      TESSERA_DO(check_program(options));
    }
  }
  return out;
}

}  // namespace tessera::app
