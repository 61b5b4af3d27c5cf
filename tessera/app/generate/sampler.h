// Which token comes next, of the logits of all: the likeliest, or a random one by the usual rules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/frontend/tokenizer/vocabulary.h"
#include "tessera/support/result.h"
#include "tessera/support/rng.h"

namespace tessera::app {

// Applied in this order.
struct SamplerOptions {
  double repeat_penalty =
      1;                   // divides the logits of tokens that were there, multiplies negative ones
  double temperature = 0;  // 0: the likeliest token, whatever stands below
  std::int64_t top_k = 0;  // only the likeliest ones; 0: all
  double top_p = 1;        // only the likeliest ones that have this much of the probability
  double min_p = 0;        // only those this likely at least, as a part of the likeliest
  std::uint64_t seed = 0;
};

// kInvalidArgument naming the number that is out of its range.
Result<void> check(const SamplerOptions& options);

// The same logits and seed give the same tokens on every machine: nothing but additions,
// multiplications and divisions in a fixed order.
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options) : options_(options), rng_(options.seed) {}

  // `before`: the tokens of the text so far. Of equal ones the first is taken. NaN counts as
  // impossible; kRunFailed when nothing is possible.
  Result<tokenizer::Token> pick(std::span<const float> logits,
                                std::span<const tokenizer::Token> before);

  // Those that pick() draws from, likeliest first, with probabilities that sum to one; one token
  // when there is nothing to draw. Public for tests.
  struct Choice {
    tokenizer::Token token = 0;
    double probability = 0;
  };
  Result<std::vector<Choice>> choices(std::span<const float> logits,
                                      std::span<const tokenizer::Token> before) const;

 private:
  SamplerOptions options_;
  Rng rng_;
};

}  // namespace tessera::app
