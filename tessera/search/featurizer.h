// Computes what models read of candidates.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tessera/learn/dataset/candidate_rows.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/scheduling/feature/extract.h"
#include "tessera/scheduling/feature/feature_set.h"
#include "tessera/scheduling/space/space.h"

namespace tessera::search {

// For one task. Not for use by two threads at once: it starts its own.
class Featurizer {
 public:
  // `code_threads` run the code of the candidates (0: all cores of the space's target), `threads`
  // compute features. kInvalidArgument for needs that nothing here computes. `space` must outlive
  // it.
  static Result<std::unique_ptr<Featurizer>> make(const model::Needs& needs,
                                                  const space::Space& space, int code_threads,
                                                  int threads);

  // Features of those candidates that have any, in order; `kept` gets their indices.
  feature::FeatureSet compute(std::span<const decide::Candidate* const> candidates,
                              std::vector<std::size_t>* kept);

 private:
  Featurizer(model::Needs needs, const space::Space& space)
      : needs_(std::move(needs)), space_(space) {}

  struct Part {
    feature::FeatureSet set;
    std::vector<std::size_t> kept;
  };
  // False: the candidate has none.
  bool compute_rows(const decide::Candidate& candidate, std::size_t thread,
                    std::vector<float>* rows, std::vector<std::int16_t>* parents);
  // Adds the candidate to the part unless it has no features.
  void add(const decide::Candidate& candidate, std::size_t index, std::size_t thread, Part* part);

  model::Needs needs_;
  const space::Space& space_;
  target::Target target_;                       // its cores are the threads of the code
  std::size_t threads_ = 1;                     // of this
  std::size_t columns_ = 0;                     // 0: as many as the candidate has decisions
  std::vector<dataset::CandidateRows> rows_;    // one per thread; empty: see below, or decisions
  std::vector<feature::Extractor> extractors_;  // likewise, of launches and curves
  std::vector<float> context_;                  // of the task
};

}  // namespace tessera::search
