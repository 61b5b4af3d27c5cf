#include "tessera/search/history.h"

#include <algorithm>
#include <cmath>

namespace tessera::search {

bool History::claim(const space::Candidate& candidate) {
  return seen_.insert(space::hash_of(candidate)).second;
}

bool History::seen(const space::Candidate& candidate) const {
  return seen_.contains(space::hash_of(candidate));
}

void History::observe(std::span<const Observation> observations) {
  const auto faster = [](const Observation& a, const Observation& b) {
    return a.seconds < b.seconds;
  };
  for (const Observation& o : observations) {
    claim(o.candidate);
    all_.push_back(o);
    SketchRecord& sketch = sketches_.at(static_cast<std::size_t>(o.candidate.sketch));
    ++sketch.trials;
    if (o.seconds <= 0 || o.censored) continue;
    if (sketch.best_s == 0 || o.seconds < sketch.best_s) sketch.best_s = o.seconds;
    fastest_.insert(std::upper_bound(fastest_.begin(), fastest_.end(), o, faster), o);
  }
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
