// Candidates that were measured: what searches are replayed on without a machine.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tessera/search/policy.h"

namespace tessera::app {

// Immutable. Nothing but what was recorded can be proposed.
class RecordedSpace {
 public:
  // `times` has the preferred values of the points; all points are asked, whatever was answered.
  using Times = std::unordered_map<decide::Candidate, double, decide::CandidateHash>;
  RecordedSpace(std::vector<decide::Point> points, Times times);

  const decide::Space& space() const { return *space_; }
  std::size_t size() const { return times_.size(); }
  double best_s() const;

  // Seconds in the order in which a policy measures, what is preferred first: until all or `trials`
  // were, or one is `enough`. What the policy cannot reach comes at the end.
  std::vector<double> search(const search::PolicyEntry& policy, search::Scorer& scorer,
                             const search::PolicyOptions& options, std::size_t trials,
                             const std::function<bool(double)>& enough = {}) const;

 private:
  Times times_;
  std::unique_ptr<decide::Space> space_;
};

}  // namespace tessera::app
