#include "tessera/app/study/language_eval.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/study/studied_task.h"
#include "tessera/app/tune/policy_run.h"
#include "tessera/app/tune/trial_loop.h"
#include "tessera/frontend/task/task.h"
#include "tessera/lang/te/canonical.h"
#include "tessera/learn/dataset/dataset.h"
#include "tessera/support/parallel.h"

namespace tessera::app {
namespace {

// A search that has enough of its trials to fit a model must not wait for its last ones.
constexpr std::int64_t kMostOfARound = 16;
constexpr double kNothingValid = 0.01;
constexpr int kRepeats = 2;
// What is timed in turns after so many trials: at most so many, and none much slower than the
// fastest.
constexpr std::size_t kFinalists = 3;
constexpr double kFinalistFactor = 1.1;

// The best until a trial; 0: there is none.
struct Best {
  double whole_s = 0;  // of those that were timed to the end
  double until_s = 0;  // of losers that were cut short: they take longer, nobody knows how long
};

// Best times by policy, seed and trial.
struct TaskCurves {
  std::vector<std::vector<std::vector<Best>>> best;
  double known_s = 0, default_s = 0;
  std::string key, name;
  std::string machine;  // of recorded tasks
  int threads = 1;
};

// 0: nothing was found. Who has found only what was cut short has that, and never more than the
// best that is known, which was timed to the end too.
double best_after(const std::vector<Best>& best, std::int64_t trials, double known_s) {
  const std::size_t n = std::min(static_cast<std::size_t>(trials), best.size());
  if (n == 0) return 0;
  const Best& b = best[n - 1];
  if (b.whole_s > 0 || b.until_s == 0) return b.whole_s;
  return std::max(b.until_s, known_s);
}

// What a search would compare after so many trials in order to take one of them, as a tuning does:
// the fastest that were timed to the end, by its own times.
std::vector<const decide::Candidate*> finalists_after(const std::vector<search::TrialResult>& found,
                                                      std::int64_t trials) {
  std::vector<const search::TrialResult*> timed;
  const std::size_t n = std::min(static_cast<std::size_t>(trials), found.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (found[i].outcome == measure::Outcome::kOk && found[i].seconds > 0)
      timed.push_back(&found[i]);
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const auto* a, const auto* b) { return a->seconds < b->seconds; });
  std::vector<const decide::Candidate*> out;
  for (const search::TrialResult* t : timed) {
    if (out.size() == kFinalists || t->seconds > kFinalistFactor * timed[0]->seconds) break;
    out.push_back(&t->candidate);
  }
  return out;
}

std::vector<std::size_t> rounds_of(const std::vector<std::int64_t>& trials) {
  std::vector<std::size_t> out;
  std::int64_t done = 0;
  for (const std::int64_t until : trials) {
    while (done < until) {
      const std::int64_t n = std::min(until - done, kMostOfARound);
      out.push_back(static_cast<std::size_t>(n));
      done += n;
    }
  }
  return out;
}

std::vector<Best> best_times(const std::vector<search::TrialResult>& trials) {
  std::vector<Best> out;
  Best best;
  for (const search::TrialResult& t : trials) {
    double& least = t.outcome == measure::Outcome::kOk ? best.whole_s : best.until_s;
    const bool timed = measure::is_timed(t.outcome) && t.seconds > 0;
    if (timed && (least == 0 || t.seconds < least)) least = t.seconds;
    out.push_back(best);
  }
  return out;
}

Result<std::vector<PolicyVariant>> variants_for(const LanguageEvalOptions& options,
                                                const target::Target& target) {
  PolicyVariant base;
  base.policy_options.with_preferred = false;
  base.language_threads = options.threads > 1 && !options.measured ? 1 : 0;
  base.languages = std::make_shared<OpenLanguages>();
  base.learner.pretrained = model_paths(kShipped, target);
  base.learner.code_threads = target.code_threads();
  std::vector<PolicyVariant> out;
  for (const StudiedPolicy& p : options.policies) {
    TESSERA_TRY(PolicyVariant v, policy_variant(p.text, base, target));
    v.label = p.name;
    out.push_back(std::move(v));
  }
  TESSERA_DO(load_pretrained(&out));
  return out;
}

class Stand;

class Study {
 public:
  Study(const LanguageEvalOptions& options, const dataset::Dataset& data)
      : options_(options), data_(data), rounds_(rounds_of(options.trials)) {}

  Result<LanguageEval> run() {
    TESSERA_TRY(const std::vector<std::string> keys, data_.tasks_of(options_.networks));
    held_out_.insert(keys.begin(), keys.end());
    for (const std::string& key : options_.tasks) {
      if (!held_out_.contains(key)) {
        return make_error(ErrorCode::kInvalidArgument, "no task of {} has the key {}",
                          fmt::join(options_.networks, ", "), key);
      }
    }
    if (!options_.tasks.empty()) held_out_ = {options_.tasks.begin(), options_.tasks.end()};
    if (options_.measured) {
      TESSERA_DO(run_measured());
    } else {
      TESSERA_DO(run_recorded());
    }
    if (curves_.empty() && options_.measured && !stopped_) {
      return make_error(ErrorCode::kInvalidArgument,
                        "no task of these networks has a definition to measure");
    }
    if (curves_.empty() && !stopped_) {
      return make_error(ErrorCode::kInvalidArgument,
                        "no task of these networks has {} timed records{}", options_.least_records,
                        options_.machine.empty() ? "" : " on " + options_.machine);
    }
    return summary();
  }

 private:
  Result<void> run_recorded() {
    TESSERA_TRY(const std::vector<std::vector<StudiedTask>> machines,
                recorded_tasks(data_, held_out_, options_.machine, options_.most_tasks));
    for (const std::vector<StudiedTask>& tasks : machines) total_ += tasks.size();
    for (const std::vector<StudiedTask>& tasks : machines) TESSERA_DO(run_machine(tasks));
    return {};
  }

  // Tasks beside each other. A language model reads for one search at a time: every thread has its
  // own.
  Result<void> run_machine(const std::vector<StudiedTask>& tasks) {
    std::vector<std::vector<PolicyVariant>> variants(
        static_cast<std::size_t>(std::max(1, options_.threads)));
    const auto run = [&](std::size_t i, std::size_t thread) -> Result<void> {
      if (stopped_) return {};
      std::vector<PolicyVariant>& own = variants[thread];
      if (own.empty()) {
        TESSERA_TRY(own, variants_for(options_, tasks.front().target));
      }
      TESSERA_TRY(const RecordedTask task, read_records(tasks[i], /*withheld=*/true));
      return run_task(tasks[i], task, own);
    };
    return try_parallel_for(tasks.size(), options_.threads, [&](std::size_t i, std::size_t thread) {
      const Result<void> done = run(i, thread);
      if (!done.ok()) stopped_ = true;
      return done;
    });
  }

  Result<void> run_task(const StudiedTask& studied, const RecordedTask& task,
                        const std::vector<PolicyVariant>& variants) {
    if (task.recorded() == nullptr || task.timed() < options_.least_records) {
      advance();
      return {};
    }
    TaskCurves curves;
    std::map<const lm::Reader*, std::shared_ptr<lm::Reader>> recalled;
    for (const PolicyVariant& variant : variants) {
      PolicyVariant own = variant;
      own.policy_options.candidates = task.size();
      if (lm::Reader* const reader = variant.policy_options.language.get(); reader != nullptr) {
        if (!recalled.contains(reader)) {
          TESSERA_TRY(recalled[reader], recalled_chances(task, *reader));
        }
        own.policy_options.language = recalled[reader];
      }
      curves.best.emplace_back();
      for (int i = 0; i < options_.seeds && !stopped_; ++i) {
        const std::uint64_t seed = options_.seed + static_cast<std::uint64_t>(i);
        TESSERA_TRY(const std::vector<search::TrialResult> found,
                    run_policy(own, {.space = task.recorded(),
                                     .measure = [&](auto c) { return task.results(c); },
                                     .others = task.shuffled(seed),
                                     .rounds = rounds_,
                                     .seed = seed}));
        curves.best.back().push_back(best_times(found));
      }
    }
    curves.known_s = task.best_s();
    curves.default_s = task.default_s();
    curves.key = studied.task->key;
    curves.name = studied.task->name;
    curves.machine = studied.target.name + " " + studied.target.cpu;
    curves.threads = studied.target.code_threads();
    keep(std::move(curves), task.size());
    return {};
  }

  Result<void> run_measured();
  Result<void> measure_tasks(const std::vector<task::Task>& tasks, Stand& stand);
  Result<TaskCurves> judge(std::size_t task, const space::Space& space,
                           const std::vector<std::vector<std::vector<search::TrialResult>>>& found,
                           Stand& stand) const;

  void keep(TaskCurves curves, std::size_t candidates) {
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_) {
        curves_.push_back(std::move(curves));
        candidates_ += candidates;
      }
    }
    advance();
  }
  void advance() {
    const std::lock_guard lock(mutex_);
    ++done_;
    go_on();
  }
  bool go_on() {
    if (options_.progress && !options_.progress(done_, total_)) stopped_ = true;
    return !stopped_;
  }

  LanguageEval summary() const {
    LanguageEval out;
    out.tasks = curves_.size();
    out.candidates = candidates_;
    out.trials = options_.trials;
    out.finished = !stopped_;
    for (std::size_t p = 0; p < options_.policies.size(); ++p) {
      PolicyShares shares{.name = options_.policies[p].name};
      for (const std::int64_t n : options_.trials) {
        if (curves_.empty()) break;
        double sum = 0, low = 1, high = 0;
        std::vector<double>& by_seed = shares.by_seed.emplace_back();
        for (int seed = 0; seed < options_.seeds; ++seed) {
          const double log_share = mean_log_share(p, static_cast<std::size_t>(seed), n);
          sum += log_share;
          low = std::min(low, std::exp(log_share));
          high = std::max(high, std::exp(log_share));
          by_seed.push_back(std::exp(log_share));
        }
        shares.share.push_back(std::exp(sum / options_.seeds));
        shares.low.push_back(low);
        shares.high.push_back(high);
      }
      out.policies.push_back(std::move(shares));
    }
    add_networks(&out);
    for (const TaskCurves& c : curves_) out.task_times.push_back(times_of(c));
    return out;
  }

  TaskTimes times_of(const TaskCurves& c) const {
    TaskTimes out{c.key, c.name, c.default_s, c.known_s, {}};
    for (const auto& seeds : c.best) {
      out.seconds.emplace_back();
      for (const std::vector<Best>& best : seeds) {
        out.seconds.back().emplace_back();
        for (const std::int64_t n : options_.trials)
          out.seconds.back().back().push_back(best_after(best, n, c.known_s));
      }
    }
    return out;
  }

  void add_networks(LanguageEval* out) const {
    const Result<std::vector<std::string>> names = data_.network_names(options_.networks);
    if (options_.measured || !names) return;
    std::map<std::pair<std::string, int>, std::map<std::string, const TaskCurves*>> machines;
    for (const TaskCurves& c : curves_) machines[{c.machine, c.threads}][c.key] = &c;
    for (const auto& [machine, curves] : machines) {
      for (const dataset::NetworkInfo& n : data_.networks) {
        if (std::find(names->begin(), names->end(), n.name) == names->end()) continue;
        NetworkTimes times = times_of(n, curves);
        times.machine = machine.first;
        times.threads = machine.second;
        if (times.tasks > 0) out->networks.push_back(std::move(times));
      }
    }
  }

  NetworkTimes times_of(const dataset::NetworkInfo& network,
                        const std::map<std::string, const TaskCurves*>& curves) const {
    NetworkTimes out{.name = network.name};
    std::vector<std::pair<const TaskCurves*, double>> parts;
    for (const auto& [key, weight] : network.weights) {
      if (weight == 0) continue;
      const auto found = curves.find(key);
      const bool known = found != curves.end() && found->second->default_s > 0;
      (known ? out.tasks : out.unknown) += 1;
      if (known) parts.emplace_back(found->second, weight);
    }
    for (const auto& [c, weight] : parts) {
      out.default_s += weight * c->default_s;
      out.best_s += weight * c->known_s;
    }
    for (std::size_t p = 0; p < options_.policies.size(); ++p) {
      out.seconds.emplace_back();
      for (const std::int64_t n : options_.trials) {
        double sum_log = 0;
        for (std::size_t seed = 0; seed < static_cast<std::size_t>(options_.seeds); ++seed) {
          double sum = 0;
          for (const auto& [c, weight] : parts) {
            const double found = best_after(c->best[p][seed], n, c->known_s);
            sum += weight * (found > 0 ? std::min(found, c->default_s) : c->default_s);
          }
          sum_log += std::log(sum);
        }
        out.seconds.back().push_back(std::exp(sum_log / options_.seeds));
      }
    }
    return out;
  }

  double mean_log_share(std::size_t policy, std::size_t seed, std::int64_t trials) const {
    double sum = 0;
    for (const TaskCurves& c : curves_) {
      const double found = best_after(c.best[policy][seed], trials, c.known_s);
      sum += std::log(found > 0 ? std::min(1.0, c.known_s / found) : kNothingValid);
    }
    return sum / static_cast<double>(curves_.size());
  }

  const LanguageEvalOptions& options_;
  const dataset::Dataset& data_;
  std::vector<std::size_t> rounds_;
  std::set<std::string> held_out_;  // keys
  std::mutex mutex_;
  std::atomic<bool> stopped_ = false;
  std::size_t done_ = 0, total_ = 0, candidates_ = 0;
  std::vector<TaskCurves> curves_;
};

// Measures candidates of several tasks, each of them once, until it is told to stop: from then on
// it gives errors.
class Stand {
 public:
  static Result<std::unique_ptr<Stand>> start(const LanguageEvalOptions& options,
                                              const std::vector<task::Task>& tasks,
                                              std::function<bool()> go_on) {
    auto stand = std::make_unique<Stand>();
    stand->go_on_ = std::move(go_on);
    std::vector<measure::MeasuredTask> measured;
    std::vector<LoopTask> loop_tasks;
    std::vector<const task::Task*> known;
    for (const task::Task& t : tasks) {
      measured.push_back({t.key, t.dag, false});
      loop_tasks.push_back({t.key, false});
      known.push_back(&t);
    }
    const auto& start_measurer = options.start_measurer ? options.start_measurer : start_workers;
    TESSERA_TRY(std::unique_ptr<measure::Measurer> measurer,
                start_measurer(std::move(measured), options.target, options.measure));
    TESSERA_TRY(stand->records_, TrialRecords::open({options.database,
                                                     {},
                                                     options.target,
                                                     options.measure.threads,
                                                     options.seed,
                                                     "lm eval"},
                                                    known));
    stand->results_.resize(tasks.size());
    stand->loop_ = std::make_unique<TrialLoop>(
        std::move(measurer), std::move(loop_tasks), kRepeats, &stand->records_,
        [s = stand.get()](const Attempt& a, const measure::Measurement& m, bool) {
          const bool timed = measure::is_timed(m.outcome);
          s->results_[a.task][a.candidate] = {a.candidate, m.outcome, timed ? m.seconds() : 0};
          return std::optional<std::int64_t>(++s->trials_);
        });
    return stand;
  }

  Result<std::vector<search::TrialResult>> measure(std::size_t task, const space::Space& space,
                                                   std::span<const decide::Candidate> candidates,
                                                   const std::string& policy) {
    std::vector<Attempt> attempts;
    for (const decide::Candidate& c : candidates) {
      if (results_[task].contains(c)) continue;
      TESSERA_TRY(const schedule::Schedule steps, space.schedule(c));
      attempts.push_back({task, c, steps, space.to_text(c), policy, 0, /*final=*/true, 0});
    }
    loop_->submit(std::move(attempts));
    while (true) {
      TESSERA_DO(check_going());
      if (loop_->pending() == 0) break;
      loop_->collect(0.25);
      if (const auto trouble = loop_->trouble())
        return make_error(ErrorCode::kRunFailed, "{}", trouble->reason);
    }
    std::vector<search::TrialResult> out;
    for (const decide::Candidate& c : candidates) out.push_back(results_[task].at(c));
    return out;
  }

  // Times of these in turns, as candidates; 0: it failed. The first is in every group of those that
  // are timed together, and times of groups compare by what it takes in each.
  Result<std::vector<double>> compare(std::size_t task, const space::Space& space,
                                      std::span<const decide::Candidate> candidates) {
    constexpr std::size_t kOthers = measure::kMostCompared - 1;
    std::vector<Attempt> attempts;
    for (const decide::Candidate& c : candidates) {
      TESSERA_TRY(const schedule::Schedule steps, space.schedule(c));
      attempts.push_back({task, c, steps, space.to_text(c), "turns", 0, /*final=*/true, 0});
    }
    std::vector<double> out = {0};
    for (std::size_t first = 1; first == 1 || first < attempts.size(); first += kOthers) {
      TESSERA_DO(check_going());
      std::vector<Attempt> group = {attempts[0]};
      for (std::size_t i = first; i < std::min(first + kOthers, attempts.size()); ++i)
        group.push_back(attempts[i]);
      std::vector<double> times;
      for (const measure::Measurement& m : loop_->compare(group, go_on_))
        times.push_back(m.outcome == measure::Outcome::kOk ? m.seconds() : 0);
      if (out[0] == 0) out[0] = times[0];
      const double scale = times[0] > 0 ? out[0] / times[0] : 1;
      for (std::size_t i = 1; i < times.size(); ++i) out.push_back(scale * times[i]);
    }
    return out;
  }

  std::size_t measured(std::size_t task) const { return results_[task].size(); }
  void end(const char* state) {
    records_.flush();
    records_.end(state);
  }

 private:
  Result<void> check_going() {
    if (go_on_()) return {};
    loop_->give_up(/*wait=*/false);
    return make_error(ErrorCode::kRunFailed, "interrupted");
  }

  using Results = std::unordered_map<decide::Candidate, search::TrialResult, decide::CandidateHash>;
  std::function<bool()> go_on_;
  TrialRecords records_;
  std::unique_ptr<TrialLoop> loop_;
  std::vector<Results> results_;  // by task
  std::int64_t trials_ = 0;
};

// The fastest of many single times is mostly a lucky one: what searches would compare and the
// default are timed again, in turns.
Result<TaskCurves> Study::judge(
    std::size_t task, const space::Space& space,
    const std::vector<std::vector<std::vector<search::TrialResult>>>& found, Stand& stand) const {
  std::vector<decide::Candidate> candidates = {space.preferred()};
  std::unordered_map<decide::Candidate, std::size_t, decide::CandidateHash> places = {
      {candidates[0], 0}};
  for (const auto& seeds : found) {
    for (const auto& trials : seeds) {
      for (const std::int64_t n : options_.trials) {
        for (const decide::Candidate* c : finalists_after(trials, n)) {
          if (places.emplace(*c, candidates.size()).second) candidates.push_back(*c);
        }
      }
    }
  }
  TESSERA_TRY(const std::vector<double> times, stand.compare(task, space, candidates));
  TaskCurves curves;
  curves.default_s = times[0];
  for (const double s : times) {
    if (s > 0 && (curves.known_s == 0 || s < curves.known_s)) curves.known_s = s;
  }
  for (const auto& seeds : found) {
    curves.best.emplace_back();
    for (const auto& trials : seeds) {
      curves.best.back().emplace_back(static_cast<std::size_t>(options_.trials.back()));
      for (const std::int64_t n : options_.trials) {
        double& best_s = curves.best.back().back()[static_cast<std::size_t>(n) - 1].whole_s;
        for (const decide::Candidate* c : finalists_after(trials, n)) {
          const double again_s = times[places[*c]];
          if (again_s > 0 && (best_s == 0 || again_s < best_s)) best_s = again_s;
        }
      }
    }
  }
  return curves;
}

Result<void> Study::run_measured() {
  std::vector<StudiedTask> studied;
  for (const dataset::TaskInfo& t : data_.tasks) {
    if (t.format == "tessera" && held_out_.contains(t.key))
      studied.push_back({&t, options_.target, {}});
  }
  keep_some(options_.most_tasks, &studied);
  std::vector<task::Task> tasks;
  for (const StudiedTask& s : studied) {
    TESSERA_TRY(te::Dag dag, te::dag_from_text(s.task->definition));
    tasks.push_back({.key = s.task->key, .name = s.task->name, .dag = std::move(dag)});
  }
  total_ = tasks.size();
  TESSERA_TRY(const std::unique_ptr<Stand> stand,
              Stand::start(options_, tasks, [this] { return go_on(); }));
  const Result<void> measured = measure_tasks(tasks, *stand);
  stand->end(measured.ok() && !stopped_ ? "done" : "interrupted");
  if (stopped_) return {};
  return measured;
}

Result<void> Study::measure_tasks(const std::vector<task::Task>& tasks, Stand& stand) {
  TESSERA_TRY(const std::vector<PolicyVariant> variants, variants_for(options_, options_.target));
  for (std::size_t t = 0; t < tasks.size() && !stopped_; ++t) {
    TESSERA_TRY(const space::Space space, space::make_space(tasks[t].dag, options_.target));
    std::vector<std::vector<std::vector<search::TrialResult>>> found;  // by policy and seed
    for (const PolicyVariant& v : variants) {
      found.emplace_back();
      for (int i = 0; i < options_.seeds; ++i) {
        const auto measure = [&](std::span<const decide::Candidate> c) {
          return stand.measure(t, space, c, v.label);
        };
        TESSERA_TRY(std::vector<search::TrialResult> trials,
                    run_policy(v, {.space = &space,
                                   .measure = measure,
                                   .others = {},
                                   .rounds = rounds_,
                                   .seed = options_.seed + static_cast<std::uint64_t>(i)}));
        found.back().push_back(std::move(trials));
      }
    }
    TESSERA_TRY(TaskCurves curves, judge(t, space, found, stand));
    curves.key = tasks[t].key;
    curves.name = tasks[t].name;
    keep(std::move(curves), stand.measured(t));
  }
  return {};
}

}  // namespace

Result<LanguageEval> evaluate_language(const LanguageEvalOptions& options) {
  const bool ascending = std::is_sorted(options.trials.begin(), options.trials.end());
  if (options.policies.empty() || options.trials.empty() || !ascending ||
      options.trials.front() < 1 || options.seeds < 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a study needs policies, seeds and ascending numbers of trials");
  }
  TESSERA_TRY(const dataset::Dataset data, dataset::load(options.data));
  return Study(options, data).run();
}

}  // namespace tessera::app
