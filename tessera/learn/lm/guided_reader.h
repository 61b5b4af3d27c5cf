// What speaks for a good sentence rather than for any: probabilities at the requested
// quality, against those at an unknown one.
#pragma once

#include <memory>

#include "tessera/learn/lm/reader.h"

namespace tessera::lm {

// Gives log p(wished) + weight * (log p(wished) - log p(unknown)) of every value, which is not
// a probability any more: over a sentence it adds up to its likelihood and the weighted evidence,
// by the rule of Bayes, that it is of the wished quality.
class GuidedReader final : public Reader {
 public:
  // Two readers of the same weights, for each keeps what it has read.
  GuidedReader(std::unique_ptr<Reader> wished, std::unique_ptr<Reader> unknown, double weight)
      : wished_(std::move(wished)), unknown_(std::move(unknown)), weight_(weight) {}

  Result<void> begin(const Subject& subject, int rows, float quality) override;
  Result<std::vector<float>> step(std::span<const Step> steps) override;
  Result<void> copy_rows(std::span<const std::int32_t> sources) override;

 private:
  std::unique_ptr<Reader> wished_, unknown_;
  double weight_;
};

}  // namespace tessera::lm
