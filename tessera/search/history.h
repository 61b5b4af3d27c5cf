// What a policy knows of its own past: what it proposed, what was measured, how each sketch did.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "tessera/search/policy.h"

namespace tessera::search {

// Adds observations to those that are there, fastest first; ties in order of arrival. Linear in
// both, so that batches matter where there are many.
void merge_fastest(std::vector<Observation> more, std::vector<Observation>* fastest);

class History {
 public:
  explicit History(std::size_t sketches) : sketches_(sketches) {}

  // False when the candidate was proposed or observed before; remembers it otherwise.
  bool claim(const decide::Candidate& candidate);
  bool seen(const decide::Candidate& candidate) const;

  void observe(std::span<const Observation> observations);

  // Timed and not censored, fastest first; ties in order of arrival.
  const std::vector<Observation>& fastest() const { return fastest_; }
  // All, failures too, in order of arrival.
  const std::vector<Observation>& all() const { return all_; }

  // Share of new samples that each sketch deserves, at most 1: what it reached against the best of
  // all. Sketches with few trials count as good, the hopeless keep a small share.
  std::vector<double> sketch_weights() const;

 private:
  struct SketchRecord {
    int trials = 0;
    double best_s = 0;  // 0: never timed
  };
  std::unordered_set<std::uint64_t> seen_;
  std::vector<Observation> all_, fastest_;
  std::vector<SketchRecord> sketches_;
};

}  // namespace tessera::search
