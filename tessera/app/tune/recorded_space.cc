#include "tessera/app/tune/recorded_space.h"

#include <algorithm>

#include "tessera/scheduling/decide/recorded.h"
#include "tessera/support/rng.h"

namespace tessera::app {

using decide::Candidate;

RecordedSpace::RecordedSpace(std::vector<decide::Point> points, Times times)
    : times_(std::move(times)) {
  std::vector<std::vector<std::int32_t>> choices;
  for (const auto& [candidate, seconds] : times_) choices.push_back(candidate.choice);
  // The order of a hash table is nobody's promise.
  std::sort(choices.begin(), choices.end());
  std::vector<std::unique_ptr<decide::Sketch>> sketches;
  sketches.push_back(std::make_unique<decide::RecordedSketch>(
      std::make_unique<decide::FreeSketch>("recorded", std::move(points)),
      decide::RecordedChoices(std::move(choices))));
  space_ = std::make_unique<decide::Space>(std::move(sketches));
  TESSERA_CHECK(times_.contains(space_->preferred()), "what is preferred was not recorded");
}

double RecordedSpace::best_s() const {
  return std::min_element(times_.begin(), times_.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->second;
}

std::vector<double> RecordedSpace::search(const search::PolicyEntry& policy, search::Scorer& scorer,
                                          const search::PolicyOptions& options, std::size_t trials,
                                          const std::function<bool(double)>& enough) const {
  const std::unique_ptr<search::Policy> searching = policy.make(*space_, scorer, options);
  std::vector<Candidate> rest;
  for (const auto& [candidate, seconds] : times_) rest.push_back(candidate);
  std::sort(rest.begin(), rest.end(),
            [](const Candidate& a, const Candidate& b) { return a.choice < b.choice; });
  Rng rng(options.seed);
  for (std::size_t i = rest.size(); i > 1; --i)
    std::swap(rest[i - 1], rest[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i)))]);
  std::unordered_map<Candidate, bool, decide::CandidateHash> measured;
  std::vector<double> out;
  Candidate next = space_->preferred();
  while (out.size() < std::min(trials, times_.size())) {
    if (measured.try_emplace(next, true).second) {
      out.push_back(times_.at(next));
      const search::Observation seen{next, out.back(), false};
      searching->observe({&seen, 1});
      if (enough && enough(out.back())) break;
    }
    const std::vector<Candidate> proposed = searching->propose(1);
    if (proposed.empty() && rest.empty()) break;
    next = proposed.empty() ? rest.back() : proposed[0];
    if (proposed.empty()) rest.pop_back();
  }
  return out;
}

}  // namespace tessera::app
