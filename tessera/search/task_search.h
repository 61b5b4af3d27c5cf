// The search of one task: its policy, what was measured, the best and the failures.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "tessera/search/model_scorer.h"
#include "tessera/search/policy.h"
#include "tessera/trials/measure/measurement.h"
#include "tessera/trials/record/record.h"

namespace tessera::search {

// What came of one trial.
struct TrialResult {
  decide::Candidate candidate;
  measure::Outcome outcome = measure::Outcome::kOk;
  double seconds = 0;  // of timed outcomes, corrected for drift
};

class TaskSearch {
 public:
  static constexpr std::size_t kOutcomes = 11;  // enumerators of measure::Outcome

  // `space` and `learner` (null: no model) must outlive it. A policy that wants a model and has
  // none works from measured times alone.
  TaskSearch(const space::Space& space, const PolicyEntry& policy, const PolicyOptions& options,
             Learner* learner);

  // Up to n candidates to measure; fewer: the space is exhausted. Each must be observed, or it is
  // lost to this search.
  std::vector<decide::Candidate> propose(std::size_t n);
  // kWorkerLost says nothing about a candidate: it is counted, and proposed once more.
  void observe(std::span<const TrialResult> results);
  // The trial that a record of an earlier session tells of; none: this space no longer has the
  // text, or nothing came of it. The caller picks the records of its task, target and threads.
  std::optional<TrialResult> trial_of(const record::Record& record) const;
  // Takes such trials over as if they had been measured now. Many at once cost much less than one
  // by one: models judge whole batches. Without `teach` the cost model learns nothing from them.
  void replay(std::span<const TrialResult> results, bool teach = true);

  // The candidate, which was timed before, takes so long: it was timed again with more care.
  void correct(const decide::Candidate& candidate, double seconds);

  const space::Space& space() const { return space_; }
  bool exhausted() const { return exhausted_; }
  std::int64_t trials() const { return trials_; }  // observed, replayed ones too
  std::int64_t replayed() const { return replayed_; }
  // Fastest fully timed candidates, best first, at most n.
  std::vector<Observation> best(std::size_t n) const;
  std::optional<Observation> best() const;
  double best_seconds() const { return best_.empty() ? 0 : best_.front().seconds; }
  // Likewise of the trials that were observed, not replayed.
  double session_best_seconds() const {
    return session_best_.empty() ? 0 : session_best_.front().seconds;
  }
  // TaskScheduler::set_promise of what was proposed last; below 0: the model knows no spread.
  double promise() const { return promise_; }
  // TaskScheduler::set_expectation, by the times that a model learned elsewhere predicts of the
  // candidates it likes best and of the default; 1 where it tells none or is not believed.
  double expected_share(std::uint64_t seed) const;
  bool believes_global() const {
    return learner_ != nullptr && learner_->believes_global(*scorer_);
  }
  const std::array<std::int64_t, kOutcomes>& outcomes() const { return outcomes_; }
  std::int64_t failures() const;  // without a time; not lost workers and crashes of the compiler

 private:
  // Those that were fully timed.
  std::vector<Observation> take(std::span<const TrialResult> results, bool teach);
  double promise_of(std::vector<decide::Candidate> candidates) const;

  const space::Space& space_;
  Learner* learner_;
  Scorer* scorer_;
  std::unique_ptr<Policy> policy_;
  std::vector<Observation> best_,
      session_best_;  // fastest first; the latter: observed, not replayed
  std::vector<decide::Candidate> again_;
  std::unordered_set<decide::Candidate, decide::CandidateHash> lost_;  // once
  std::array<std::int64_t, kOutcomes> outcomes_{};
  std::int64_t trials_ = 0, replayed_ = 0;
  bool exhausted_ = false;
  double promise_ = -1;
};

}  // namespace tessera::search
