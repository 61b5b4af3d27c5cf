#include "tessera/search/history.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tessera::search {

void merge_fastest(std::vector<Observation> more, std::vector<Observation>* fastest) {
  const auto faster = [](const Observation& a, const Observation& b) {
    return a.seconds < b.seconds;
  };
  std::stable_sort(more.begin(), more.end(), faster);
  // What is faster than all new ones stays where it is.
  const auto known = std::ssize(*fastest);
  std::move(more.begin(), more.end(), std::back_inserter(*fastest));
  const auto middle = fastest->begin() + known;
  if (middle == fastest->end()) return;
  const auto first = std::upper_bound(fastest->begin(), middle, *middle, faster);
  std::inplace_merge(first, middle, fastest->end(), faster);
}

bool History::claim(const decide::Candidate& candidate) {
  return seen_.insert(decide::hash_of(candidate)).second;
}

bool History::seen(const decide::Candidate& candidate) const {
  return seen_.contains(decide::hash_of(candidate));
}

void History::observe(std::span<const Observation> observations) {
  std::vector<Observation> timed;
  for (const Observation& o : observations) {
    claim(o.candidate);
    all_.push_back(o);
    SketchRecord& sketch = sketches_.at(static_cast<std::size_t>(o.candidate.sketch));
    ++sketch.trials;
    if (o.seconds <= 0 || o.censored) continue;
    if (sketch.best_s == 0 || o.seconds < sketch.best_s) sketch.best_s = o.seconds;
    timed.push_back(o);
  }
  merge_fastest(std::move(timed), &fastest_);
}

std::vector<double> History::sketch_weights() const {
  constexpr int kTrialsToJudge = 8;
  constexpr double kFloor = 0.03;
  // A sketch twice as slow as the best gets a sixteenth of its samples.
  constexpr double kSharpness = 4;
  std::vector<double> weights(sketches_.size(), 1);
  if (fastest_.empty()) return weights;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const SketchRecord& s = sketches_[i];
    if (s.trials < kTrialsToJudge) continue;
    const double ratio = s.best_s > 0 ? fastest_.front().seconds / s.best_s : 0;
    weights[i] = std::max(kFloor, std::pow(ratio, kSharpness));
  }
  return weights;
}

}  // namespace tessera::search
