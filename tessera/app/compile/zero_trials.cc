#include "tessera/app/compile/zero_trials.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "tessera/backend/kernel/build_kernel.h"
#include "tessera/learn/lm/generate.h"
#include "tessera/scheduling/space/kind.h"
#include "tessera/search/featurizer.h"
#include "tessera/search/model_scorer.h"
#include "tessera/search/pinned_space.h"
#include "tessera/support/clock.h"
#include "tessera/support/parallel.h"

namespace tessera::app {
namespace {

constexpr std::size_t kPicked = 16;  // best candidates of a task that are looked at closely
constexpr int kPopulation = 384, kLeastPopulation = 32, kGenerations = 5;

struct ChosenTask {
  TaskPrediction prediction;
  plan::PlanEntry entry;  // where it changed
};

// One task: candidates by evolution on scores, then the choice among the best.
class TaskChoice {
 public:
  // Without a population the default is judged alone; without a reader nobody proposes beside it.
  TaskChoice(const task::Task& task, const ZeroTrialOptions& options, int threads, int population,
             lm::Reader* reader)
      : task_(task),
        options_(options),
        threads_(threads),
        population_(population),
        reader_(reader) {}

  Result<ChosenTask> run() {
    TESSERA_TRY(const space::Space whole, space::make_space(task_.dag, options_.target, {}));
    // One thread tells nothing about how to share work out.
    const space::Space pinned = search::with_preferred(whole, decide::PointKind::kParallel);
    const space::Space& space = threads_ == 1 ? pinned : whole;
    const bool known = knows_kind(*options_.model, space, threads_, space.preferred());
    if (!known) population_ = 0;
    TESSERA_TRY(const JudgedTask judged, search(space));
    const std::vector<JudgedCandidate>& list = judged.candidates;
    ChosenTask out;
    TaskPrediction& prediction = out.prediction;
    prediction.key = task_.key;
    prediction.name = task_.name;
    prediction.uses = task_.weight;
    prediction.known = known;
    prediction.scored = scored_;
    const bool agreed = reader_ != nullptr;
    double evidence = kNoEvidence;
    if (agreed) evidence = options_.agreed.evidence;
    const bool open =
        known && (!agreed || may_change(options_.agreed, task_.name, task_.flops, task_.bytes));
    const JudgedCandidate* chosen =
        !open ? nullptr
              : choose_candidate(
                    judged, agreed ? options_.agreed.margin : options_.margin, evidence,
                    [&](const decide::Candidate& c) {
                      const Result<schedule::Schedule> steps = space.schedule(c);
                      return knows_kind(*options_.model, space, threads_, c) && steps.ok() &&
                             kernel::lower_kernel(task_.dag, *steps, options_.target).ok();
                    });
    if (!list.empty() && judged.tells_times) {
      prediction.default_s = std::exp2(list.front().log_time);
      prediction.seconds = chosen ? std::exp2(chosen->log_time) : prediction.default_s;
    }
    if (chosen != nullptr) {
      TESSERA_TRY(const schedule::Schedule steps, space.schedule(chosen->candidate));
      prediction.changed = true;
      out.entry = {task_.name, schedule::to_text(steps), space.to_text(chosen->candidate), 0};
    }
    return out;
  }

 private:
  Result<JudgedTask> search(const space::Space& space) {
    search::LearnerOptions learning;
    learning.model = "random";  // there is nothing to learn from
    learning.global = options_.model;
    learning.code_threads = threads_;
    learning.threads = 1;  // tasks run beside each other
    TESSERA_TRY(const std::unique_ptr<search::Learner> learner, search::Learner::make(learning));
    search::Scorer& scorer = learner->add_task(space);
    TESSERA_TRY(const search::PolicyEntry* policy, search::find_policy("evolutionary"));
    search::PolicyOptions evolving;
    evolving.seed = options_.seed;
    evolving.random_share = 0;
    evolving.population = population_;
    evolving.generations = kGenerations;
    std::vector<decide::Candidate> candidates;
    if (population_ > 0) candidates = policy->make(space, scorer, evolving)->propose(kPicked + 1);
    if (population_ > 0 && reader_ != nullptr) TESSERA_DO(add_written(space, &candidates));
    std::erase(candidates, space.preferred());
    candidates.insert(candidates.begin(), space.preferred());
    const std::vector<float> scores = scorer.score(candidates);
    scored_ = learner->state().scored;
    return judge_candidates(space, candidates, scores, *options_.model, threads_, reader_);
  }

  Result<void> add_written(const space::Space& space, std::vector<decide::Candidate>* to) {
    lm::Generator generator(space, *reader_, {});
    Rng rng(options_.seed);
    const auto unknown = [&](const decide::Candidate& c) {
      return std::find(to->begin(), to->end(), c) == to->end();
    };
    TESSERA_TRY(const std::vector<lm::Generated> written,
                generator.sample(static_cast<std::size_t>(options_.sentences), rng, unknown));
    for (const lm::Generated& g : written) to->push_back(g.candidate);
    return {};
  }

  const task::Task& task_;
  const ZeroTrialOptions& options_;
  int threads_, population_;
  lm::Reader* reader_;
  std::int64_t scored_ = 0;
};

// Tasks by `order`, beside each other: each is the same whatever the others do. The error of the
// first of them that fails.
Result<std::vector<ChosenTask>> choose_all(const std::vector<task::Task>& tasks,
                                           const std::vector<std::size_t>& order,
                                           const ZeroTrialOptions& options, int code_threads,
                                           int population) {
  const auto start = Clock::now();
  std::vector<ChosenTask> out(order.size());
  std::vector<std::shared_ptr<lm::Reader>> readers(
      static_cast<std::size_t>(std::max(1, options.search_threads)));
  std::mutex mutex;
  std::size_t done = 0;
  const auto choose = [&](std::size_t i, std::size_t thread) -> Result<void> {
    std::shared_ptr<lm::Reader>& reader = readers[thread];
    if (reader == nullptr && options.open_language) {
      TESSERA_TRY(reader, options.open_language());
    }
    const task::Task& task = tasks[order[i]];
    const bool in_time = seconds_since(start) < options.time_limit_s;
    Result<ChosenTask> made =
        TaskChoice(task, options, code_threads, in_time ? population : 0, reader.get()).run();
    if (!made.ok()) return made.error().with_context(fmt::format("task {}", task.name));
    out[i] = std::move(made).value();
    const std::lock_guard lock(mutex);
    if (options.progress) options.progress(++done, order.size());
    return {};
  };
  TESSERA_DO(try_parallel_for(order.size(), options.search_threads, choose));
  return out;
}

}  // namespace

bool may_change(const Agreement& agreed, const std::string& task_name, double flops, double bytes) {
  // A kernel is named by what is fused into it, in front too: "mul+conv_transpose+tanh".
  const std::string parts = "+" + task_name + "+";
  const bool transforms = parts.find("+conv_winograd+") != std::string::npos ||
                          parts.find("+conv_transpose+") != std::string::npos ||
                          parts.find("+conv_transpose_winograd+") != std::string::npos;
  return !(agreed.no_transforms && transforms) && flops <= agreed.most_intensity * bytes;
}

bool knows_kind(const model::CostModel& model, const space::Space& space, int threads,
                const decide::Candidate& candidate) {
  return model.examples_of(space::candidate_kind(space.dag(), space.target(), threads,
                                                 space.to_text(candidate))) >= kLeastExamples;
}

Result<JudgedTask> judge_candidates(const space::Space& space,
                                    const std::vector<decide::Candidate>& candidates,
                                    const std::vector<float>& scores, const model::CostModel& model,
                                    int code_threads, lm::Reader* reader) {
  TESSERA_TRY(const std::unique_ptr<search::Featurizer> featurizer,
              search::Featurizer::make(model.needs(), space, code_threads, 1));
  std::vector<const decide::Candidate*> pointers;
  for (const decide::Candidate& c : candidates) pointers.push_back(&c);
  std::vector<std::size_t> kept;
  const feature::FeatureSet set = featurizer->compute(pointers, &kept);
  JudgedTask out;
  if (kept.empty() || kept.front() != 0) return out;
  std::vector<double> chances(candidates.size(), 0.0);
  if (reader != nullptr) {
    lm::Generator generator(space, *reader, {});
    TESSERA_TRY(chances, generator.chances_of(candidates));
  }
  const std::vector<float> times = model.log_time(set);
  out.tells_times = times.size() == kept.size() && std::isfinite(times.front());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    out.candidates.push_back({.candidate = candidates[kept[i]],
                              .score = scores[kept[i]],
                              .log_time = out.tells_times ? times[i] : 0,
                              .evidence = chances[kept[i]] - chances.front()});
  }
  return out;
}

const JudgedCandidate* choose_candidate(
    const JudgedTask& task, double margin, double evidence,
    const std::function<bool(const decide::Candidate&)>& builds) {
  if (!task.tells_times) return nullptr;
  std::vector<const JudgedCandidate*> order;
  for (const JudgedCandidate& j : task.candidates) order.push_back(&j);
  std::stable_sort(
      order.begin(), order.end(),
      [](const JudgedCandidate* a, const JudgedCandidate* b) { return a->score > b->score; });
  const JudgedCandidate& usual = task.candidates.front();
  for (const JudgedCandidate* j : order) {
    if (j == &usual) return nullptr;
    const double promise = static_cast<double>(usual.log_time) - static_cast<double>(j->log_time);
    const bool enough = promise >= margin && j->evidence > evidence;
    if (enough && builds(j->candidate)) return j;
  }
  return nullptr;
}

Result<ZeroTrialResult> choose_schedules(const std::vector<task::Task>& tasks,
                                         const ZeroTrialOptions& options) {
  ZeroTrialResult out;
  out.threads = std::max(1, options.threads);
  if (const int most = options.model->most_threads(); most > 0) {
    out.threads = std::min(out.threads, most);
  }
  out.plan = options.known;
  out.plan.target = target::to_text(options.target);
  if (options.known.tasks.empty()) out.plan.threads = out.threads;
  // The heaviest first: what the time limit cuts short matters least.
  std::vector<std::size_t> order;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (options.known.find(tasks[t].key) == nullptr) order.push_back(t);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tasks[a].flops * tasks[a].weight > tasks[b].flops * tasks[b].weight;
  });
  const std::int64_t each =
      options.candidates / std::max<std::int64_t>(1, static_cast<std::int64_t>(order.size()));
  const auto population =
      std::clamp(static_cast<int>(each / (kGenerations + 1)), kLeastPopulation, kPopulation);
  TESSERA_TRY(std::vector<ChosenTask> chosen,
              choose_all(tasks, order, options, out.threads, population));
  for (ChosenTask& task : chosen) {
    if (task.prediction.changed) out.plan.tasks[task.prediction.key] = std::move(task.entry);
    out.tasks.push_back(std::move(task.prediction));
  }
  return out;
}

}  // namespace tessera::app
