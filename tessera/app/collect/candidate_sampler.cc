#include "tessera/app/collect/candidate_sampler.h"

#include <algorithm>
#include <atomic>

#include "tessera/machine/target/cpus.h"
#include "tessera/support/hash.h"
#include "tessera/support/parallel.h"

namespace tessera::app {
namespace {

constexpr std::size_t kParents = 16;  // fastest candidates whose neighbours are drawn
constexpr int kTries = 64;            // for one candidate not seen before

// An empty list names all.
bool is_named(const std::string& name, const std::vector<std::string>& names) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

// Of all tasks in the scope, several at once; all threads have ended when it returns.
std::vector<std::optional<Result<space::Space>>> make_spaces(const std::vector<TuneTask>& tasks,
                                                             const SampleScope& scope) {
  std::vector<std::optional<Result<space::Space>>> out(tasks.size());
  std::atomic<std::size_t> next = 0;
  const auto make = [&](std::size_t, std::size_t) {
    for (std::size_t i = next++; i < tasks.size(); i = next++) {
      const TuneTask& t = tasks[i];
      if (!is_named(t.task.key, scope.tasks)) continue;
      if (!t.algorithm.empty() && !is_named(t.algorithm, scope.algorithms)) continue;
      out[i] = space::make_space(t.task.dag, scope.target);
    }
  };
  Workers(target::usable_cpus()).parts(tasks.size(), 1, make);
  return out;
}

}  // namespace

void CandidateSampler::take(const decide::Candidate& candidate, double seconds) {
  seen_.insert(candidate);
  ++measured_;
  if (seconds <= 0) return;
  const auto at = std::upper_bound(best_.begin(), best_.end(), seconds,
                                   [](double s, const Timed& t) { return s < t.seconds; });
  best_.insert(at, {candidate, seconds});
  if (best_.size() > kParents) best_.pop_back();
}

void CandidateSampler::go_on() {
  if (measured_ > 0) rng_ = Rng(hash_bytes(fmt::format("{} {}", seed_, measured_)));
}

std::vector<decide::Candidate> CandidateSampler::draw(std::int64_t n, double uniform_share) {
  std::vector<decide::Candidate> out;
  if (seen_.empty()) add(space_.preferred(), &out);
  while (static_cast<std::int64_t>(out.size()) < n && !exhausted_) {
    bool found = false;
    for (int i = 0; i < kTries && !found; ++i) found = add(draw_one(uniform_share), &out);
    exhausted_ = !found;
  }
  return out;
}

bool CandidateSampler::add(std::optional<decide::Candidate> c,
                           std::vector<decide::Candidate>* out) {
  if (!c) return false;
  space_.sketches()[static_cast<std::size_t>(c->sketch)]->settle(c->choice);
  if (!seen_.insert(*c).second) return false;
  out->push_back(*std::move(c));
  return true;
}

const decide::Candidate& CandidateSampler::any_parent() {
  return best_[static_cast<std::size_t>(rng_.below(std::ssize(best_)))].candidate;
}

std::optional<decide::Candidate> CandidateSampler::draw_one(double uniform_share) {
  if (rng_.uniform() < uniform_share) return space_.sample(rng_);
  decide::Candidate at = space_.preferred();
  if (!best_.empty() && rng_.uniform() < 0.85) at = any_parent();
  if (best_.size() > 1 && rng_.uniform() < 0.25) {
    const decide::Candidate& other = any_parent();
    if (other.sketch == at.sketch) at = space_.cross(at, other, rng_).value_or(at);
  }
  for (std::int64_t steps = 1 + rng_.below(3); steps > 0; --steps) {
    std::optional<decide::Candidate> next = space_.mutate(at, rng_);
    if (!next) return std::nullopt;
    at = *std::move(next);
  }
  return at;
}

Result<Samplers> make_samplers(const SampleScope& scope) {
  if (scope.shards < 1 || scope.shard >= scope.shards) {
    return make_error(ErrorCode::kInvalidArgument, "there is no shard {} of {}: they count from 0",
                      scope.shard, scope.shards);
  }
  Samplers out;
  TESSERA_TRY(const TuneProblem problem, make_tune_problem(scope.subjects, {}));
  for (const std::string& key : scope.tasks) {
    const bool found = std::any_of(problem.tasks.begin(), problem.tasks.end(),
                                   [&](const TuneTask& t) { return t.task.key == key; });
    if (!found) return make_error(ErrorCode::kInvalidArgument, "no task has the key {}", key);
  }
  std::vector<std::optional<Result<space::Space>>> spaces = make_spaces(problem.tasks, scope);
  std::size_t number = 0;
  for (std::size_t i = 0; i < problem.tasks.size(); ++i) {
    const TuneTask& t = problem.tasks[i];
    if (!spaces[i]) {
      ++out.skipped;
      continue;
    }
    Result<space::Space>& space = *spaces[i];
    if (!space) return space.error().with_context(fmt::format("task {}", t.task.name));
    if (space->size() < scope.least_points || t.task.flops > scope.most_flops) {
      ++out.skipped;
      continue;
    }
    if (number++ % scope.shards != scope.shard) continue;
    const std::uint64_t seed = hash_bytes(fmt::format("{} {}", scope.seed, t.task.key));
    out.samplers.push_back(
        std::make_unique<CandidateSampler>(t.task, std::move(space).value(), seed));
  }
  return out;
}

Result<void> check_numbers(std::int64_t per_task, double uniform_share, int threads) {
  if (per_task < 1) {
    return make_error(ErrorCode::kInvalidArgument, "{} candidates per task: at least 1", per_task);
  }
  if (!(uniform_share >= 0 && uniform_share <= 1)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a share of {} drawn from the whole space: 0 to 1", uniform_share);
  }
  if (threads < 1) {
    return make_error(ErrorCode::kInvalidArgument, "{} threads: at least 1", threads);
  }
  return {};
}

}  // namespace tessera::app
