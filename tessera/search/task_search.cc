#include "tessera/search/task_search.h"

#include <algorithm>
#include <cmath>

#include "tessera/search/history.h"
#include "tessera/support/check.h"

namespace tessera::search {
namespace {

// A short evolution, and how many of its best are looked at: 256 candidates scored a task.
constexpr int kExpectedPopulation = 64, kExpectedGenerations = 3;
constexpr std::size_t kExpectedCandidates = 9;  // the default among them

std::unique_ptr<Policy> make_policy(const space::Space& space, const PolicyEntry& policy,
                                    Scorer& scorer, PolicyOptions options) {
  options.task = &space;
  return policy.make(space, scorer, options);
}

}  // namespace

TaskSearch::TaskSearch(const space::Space& space, const PolicyEntry& policy,
                       const PolicyOptions& options, Learner* learner)
    : space_(space),
      learner_(policy.uses_model ? learner : nullptr),
      scorer_(learner_ != nullptr ? &learner_->add_task(space) : &no_scorer()),
      policy_(make_policy(space, policy, *scorer_, options)) {}

std::vector<decide::Candidate> TaskSearch::propose(std::size_t n) {
  std::vector<decide::Candidate> out;
  while (out.size() < n && !again_.empty()) {
    out.push_back(std::move(again_.back()));
    again_.pop_back();
  }
  const std::size_t wanted = n - out.size();
  if (wanted == 0) return out;
  std::vector<decide::Candidate> fresh = policy_->propose(wanted);
  exhausted_ = fresh.size() < wanted;
  promise_ = promise_of(fresh);
  std::move(fresh.begin(), fresh.end(), std::back_inserter(out));
  return out;
}

double TaskSearch::promise_of(std::vector<decide::Candidate> candidates) const {
  if (candidates.empty() || best_.empty() || !scorer_->ready()) return -1;
  candidates.push_back(best_.front().candidate);
  const std::vector<float> spread = scorer_->spread(candidates);
  if (spread.size() != candidates.size()) return -1;
  const std::vector<float> score = scorer_->score(candidates);
  if (score.size() != candidates.size()) return -1;
  double most = 0;
  for (std::size_t i = 0; i + 1 < candidates.size(); ++i) {
    const double lead = static_cast<double>(score[i]) - score.back();
    const double deviation = std::hypot(spread[i], spread.back());
    // The normal distribution of the lead above 0.
    const double chance = deviation > 0 ? 0.5 * std::erfc(-lead / deviation / std::sqrt(2.0))
                          : lead > 0    ? 1.0
                                        : 0.0;
    most = std::max(most, chance);
  }
  return most;
}

double TaskSearch::expected_share(std::uint64_t seed) const {
  if (!believes_global()) return 1;
  PolicyOptions quick;
  quick.seed = seed;
  quick.random_share = 0;
  quick.population = kExpectedPopulation;
  quick.generations = kExpectedGenerations;
  // One of its own: what it proposes is not used up.
  const Result<const PolicyEntry*> evolution = find_policy("evolutionary");
  TESSERA_CHECK(evolution.ok(), "there is no evolutionary policy");
  std::vector<decide::Candidate> candidates =
      (*evolution)->make(space_, *scorer_, quick)->propose(kExpectedCandidates);
  std::erase(candidates, space_.preferred());
  if (candidates.empty()) return 1;
  candidates.push_back(space_.preferred());
  std::vector<float> times = learner_->log_times(*scorer_, candidates);
  const auto finite = [](float t) { return std::isfinite(t); };
  if (times.size() != candidates.size() || !std::all_of(times.begin(), times.end(), finite)) {
    return 1;
  }
  const double of_default = static_cast<double>(times.back());
  times.pop_back();
  // The best of many predictions owes most of its promise to error: the median owes less.
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  const double share = std::exp2(static_cast<double>(*middle) - of_default);
  return share < 1 ? share : 1;
}

void TaskSearch::observe(std::span<const TrialResult> results) {
  for (const TrialResult& r : results) {
    // One that takes its worker with it every time (no memory left) is not tried for ever.
    if (r.outcome == measure::Outcome::kWorkerLost && lost_.insert(r.candidate).second)
      again_.push_back(r.candidate);
  }
  merge_fastest(take(results, true), &session_best_);
}

std::optional<TrialResult> TaskSearch::trial_of(const record::Record& record) const {
  measure::Outcome outcome = measure::Outcome::kOk;
  const bool known = measure::outcome_from_text(record.outcome, &outcome);
  if (record.format != "tessera" || !known || outcome == measure::Outcome::kWorkerLost) {
    return std::nullopt;
  }
  Result<decide::Candidate> candidate = space_.parse(record.candidate);
  if (!candidate.ok() || !space_.check(*candidate).ok()) return std::nullopt;
  space_.sketches()[static_cast<std::size_t>(candidate->sketch)]->settle(candidate->choice);
  return TrialResult{std::move(*candidate), outcome, record.seconds};
}

void TaskSearch::replay(std::span<const TrialResult> results, bool teach) {
  replayed_ += std::ssize(results);
  take(results, teach);
}

std::vector<Observation> TaskSearch::take(std::span<const TrialResult> results, bool teach) {
  std::vector<Observation> observations, timed;
  for (const TrialResult& r : results) {
    ++outcomes_.at(static_cast<std::size_t>(r.outcome));
    if (r.outcome == measure::Outcome::kWorkerLost) continue;
    ++trials_;
    Observation o{r.candidate, 0, r.outcome == measure::Outcome::kCensored};
    if (measure::is_timed(r.outcome) && r.seconds > 0) o.seconds = r.seconds;
    observations.push_back(o);
    if (o.seconds > 0 && !o.censored) timed.push_back(std::move(o));
  }
  merge_fastest(timed, &best_);
  policy_->observe(observations);
  if (learner_ != nullptr && teach) learner_->observe(*scorer_, observations);
  return timed;
}

void TaskSearch::correct(const decide::Candidate& candidate, double seconds) {
  for (std::vector<Observation>* list : {&best_, &session_best_}) {
    const std::size_t known =
        std::erase_if(*list, [&](const Observation& o) { return o.candidate == candidate; });
    if (known > 0) merge_fastest({{candidate, seconds, false}}, list);
  }
}

std::vector<Observation> TaskSearch::best(std::size_t n) const {
  // A candidate may have been measured twice; its faster time stands first.
  std::vector<Observation> out;
  for (const Observation& o : best_) {
    if (out.size() == n) break;
    const bool twice = std::any_of(out.begin(), out.end(), [&](const Observation& other) {
      return other.candidate == o.candidate;
    });
    if (!twice) out.push_back(o);
  }
  return out;
}

std::optional<Observation> TaskSearch::best() const {
  return best_.empty() ? std::nullopt : std::optional<Observation>(best_.front());
}

std::int64_t TaskSearch::failures() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < kOutcomes; ++i) {
    const auto outcome = static_cast<measure::Outcome>(i);
    const bool own =
        outcome != measure::Outcome::kWorkerLost && outcome != measure::Outcome::kCompilerBug;
    if (!measure::is_timed(outcome) && own) sum += outcomes_[i];
  }
  return sum;
}

}  // namespace tessera::search
