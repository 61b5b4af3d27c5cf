// A task of which only measured candidates exist: what searches are compared on without a machine.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/learn/lm/reader.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/search/task_search.h"

namespace tessera::app {

// Of a candidate of the whole space; its outcome is never kWorkerLost.
using RecordedTrial = search::TrialResult;

// Immutable.
class RecordedTask {
 public:
  // Of several trials of a candidate the first that was timed fully counts. With `withheld`, what
  // reasoning prefers cannot be proposed; it still counts for best_s().
  RecordedTask(std::unique_ptr<space::Space> whole, std::vector<RecordedTrial> trials,
               bool withheld);

  const space::Space& whole() const { return *whole_; }
  // The recorded candidates and no others; null: there are none. Decisions are asked in the order
  // of the whole space.
  const space::Space* recorded() const { return recorded_.get(); }
  std::size_t size() const { return results_.size(); }
  std::size_t timed() const { return timed_; }
  double best_s() const { return best_s_; }        // 0: none
  double default_s() const { return default_s_; }  // of what reasoning prefers; 0: not recorded

  // Of candidates of recorded().
  std::vector<RecordedTrial> results(std::span<const decide::Candidate> candidates) const;
  // All of them, in an order that follows from the seed.
  std::vector<decide::Candidate> shuffled(std::uint64_t seed) const;

 private:
  std::unique_ptr<space::Space> whole_, recorded_;
  std::unordered_map<decide::Candidate, RecordedTrial, decide::CandidateHash> results_;
  std::size_t timed_ = 0;
  double best_s_ = 0, default_s_ = 0;
};

// The probabilities that `reader` gives to recorded candidates, among everything that is legal in
// the whole space: decisions that records leave no choice for still count. Both must outlive it.
std::unique_ptr<lm::Reader> whole_chances(const space::Space& whole, lm::Reader& reader);

// The same of all candidates of task.recorded(), which must not be null, read at once: whoever
// walks them as often as he likes asks `reader` nothing more.
Result<std::unique_ptr<lm::Reader>> recalled_chances(const RecordedTask& task, lm::Reader& reader);

}  // namespace tessera::app
