// What fitting shares between models: checks of the data, and losses over candidates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/learn/model/cost_model.h"

namespace tessera::model {

// kInvalidArgument: empty, of inconsistent sizes, or with values that are not finite.
Result<void> check_training_set(const TrainingSet& data);

// First and second derivatives of a loss by the score of each candidate, to be minimised.
struct Derivatives {
  std::vector<float> first, second;
};

// A loss over candidates that a booster descends. `weights` multiply candidates: 0 leaves one out.
class Loss {
 public:
  virtual ~Loss() = default;
  virtual void derivatives(std::span<const float> scores, std::span<const float> weights,
                           Derivatives* out) = 0;
  // Mean loss of the candidates whose weight is 0 (held out).
  virtual double held_out(std::span<const float> scores, std::span<const float> weights) const = 0;
};

// "rank": log(1 + exp(-(s_i - s_j))) over sampled pairs of one group with y_i > y_j, weighted by
// y_i - y_j. "regression": squared error, good candidates weighted more. Keeps a reference to
// `data`.
std::unique_ptr<Loss> make_loss(const std::string& objective, const TrainingSet& data,
                                std::uint64_t seed);

// The factor by which `scores`, one a candidate of another model, are nearest to the unit of the
// objective: what TrainingSet::base should be multiplied by. 0: they say nothing.
float base_scale(const std::string& objective, const TrainingSet& data,
                 std::span<const float> scores, std::uint64_t seed);

}  // namespace tessera::model
