// How well a language model predicts a text, and how near its predictions are to another model's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tessera/app/generate/text_session.h"

namespace tessera::app {

struct Perplexity {
  std::int64_t tokens = 0;  // that were predicted
  double value = 0;         // e to the mean of -log(probability), tokens as the text has them
  struct Beside {
    double value = 0;           // of the other model
    double same_likeliest = 0;  // share of the tokens where both find the same one likeliest
    double divergence = 0;      // mean Kullback-Leibler divergence from the other model, in nats
  };
  std::optional<Beside> beside;  // where there is another model
};

// Reads the text in pieces as long as the models remember, each behind `begin` where there is one;
// every token is predicted from those before it in its piece. What the models read before is
// forgotten. kInvalidArgument: fewer than two tokens, or models that know different numbers of
// tokens; kRunFailed: logits that are not numbers.
Result<Perplexity> perplexity(LanguageModel& model, LanguageModel* other,
                              std::span<const tokenizer::Token> text,
                              std::optional<tokenizer::Token> begin);

}  // namespace tessera::app
