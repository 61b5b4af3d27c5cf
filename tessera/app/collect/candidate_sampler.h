// Draws candidates of a task to learn from: some anywhere in its space, some near what is fast.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "tessera/app/tune/tune_problem.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/space/space.h"

namespace tessera::app {

// One task: its space, what was drawn, the fastest so far. The same seed, the same earlier records
// and the same times give the same candidates.
class CandidateSampler {
 public:
  CandidateSampler(const task::Task& task, space::Space space, std::uint64_t seed)
      : task_(task), space_(std::move(space)), seed_(seed), rng_(seed) {}

  const task::Task& task() const { return task_; }
  const space::Space& space() const { return space_; }
  // Candidates that were measured, or were drawn and may yet be.
  std::int64_t records() const { return static_cast<std::int64_t>(seen_.size()) - lost_; }
  std::int64_t measured() const { return measured_; }
  bool exhausted() const { return exhausted_; }  // nothing new was found in many tries
  double best_seconds() const { return best_.empty() ? 0 : best_.front().seconds; }

  // A candidate that was measured; `seconds` 0: without a time.
  void take(const decide::Candidate& candidate, double seconds);
  // A drawn one will not be measured. It is not drawn again: what ended its worker may be its own.
  void lose() { ++lost_; }
  // After the records of earlier calls were taken: draws others than those calls did.
  void go_on();
  // At most n that were neither drawn nor taken before, the default first. `uniform_share` of them
  // are drawn from the whole space, the rest from the neighbourhood of the fastest and the default.
  std::vector<decide::Candidate> draw(std::int64_t n, double uniform_share);

 private:
  struct Timed {
    decide::Candidate candidate;
    double seconds = 0;
  };
  bool add(std::optional<decide::Candidate> c, std::vector<decide::Candidate>* out);
  const decide::Candidate& any_parent();
  std::optional<decide::Candidate> draw_one(double uniform_share);

  task::Task task_;
  space::Space space_;
  std::uint64_t seed_;
  Rng rng_;
  std::unordered_set<decide::Candidate, decide::CandidateHash> seen_;
  std::vector<Timed> best_;  // fastest first
  std::int64_t measured_ = 0, lost_ = 0;
  bool exhausted_ = false;
};

// Which tasks to draw candidates of.
struct SampleScope {
  std::vector<TuneSubject> subjects;
  target::Target target;
  std::vector<std::string> tasks;       // keys of those that count; empty: all
  double least_points = 32;             // spaces with fewer are left out
  double most_flops = 1e12;             // of one task
  std::vector<std::string> algorithms;  // of convolutions with a choice; empty: all
  std::size_t shard = 0, shards = 1;    // tasks whose number modulo `shards` is `shard`
  std::uint64_t seed = 1;
};

struct Samplers {
  std::vector<std::unique_ptr<CandidateSampler>> samplers;
  std::size_t skipped = 0;
};

// kInvalidArgument: `shard` is none of `shards`, or no subject has a task with one of the keys.
Result<Samplers> make_samplers(const SampleScope& scope);

// kInvalidArgument unless there is something to draw and a share of it.
Result<void> check_numbers(std::int64_t per_task, double uniform_share, int threads);

}  // namespace tessera::app
