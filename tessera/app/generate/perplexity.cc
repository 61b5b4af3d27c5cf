#include "tessera/app/generate/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/support/invalid.h"

namespace tessera::app {
namespace {

using tokenizer::Token;

// Logarithms of probabilities.
Result<std::vector<double>> log_probabilities(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v) - most);
  if (!std::isfinite(sum))
    return make_error(ErrorCode::kRunFailed, "the model's logits are infinite or not numbers");
  std::vector<double> out;
  out.reserve(logits.size());
  for (const float v : logits) out.push_back(static_cast<double>(v) - most - std::log(sum));
  return out;
}

struct Sums {
  double log_likelihood = 0, other_log_likelihood = 0, divergence = 0;
  std::int64_t tokens = 0, same_likeliest = 0;
};

void compare(const std::vector<double>& own, const std::vector<double>& other, Token next,
             Sums* sums) {
  sums->other_log_likelihood += other[static_cast<std::size_t>(next)];
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double p = std::exp(other[i]);
    if (p > 0) sums->divergence += p * (other[i] - own[i]);
  }
  const auto likeliest = [](const std::vector<double>& of) {
    return std::ranges::max_element(of) - of.begin();
  };
  if (likeliest(own) == likeliest(other)) ++sums->same_likeliest;
}

// Reads `tokens`, behind which the `next` ones come.
Result<void> read_part(LanguageModel& model, LanguageModel* other, std::span<const Token> tokens,
                       std::span<const Token> next, Sums* sums) {
  TESSERA_TRY(const std::span<const float> own, model.step_each(tokens));
  const std::size_t row = own.size() / tokens.size();
  std::span<const float> others;
  if (other != nullptr) {
    TESSERA_TRY(others, other->step_each(tokens));
    if (others.size() != own.size()) {
      return invalid("one model knows {} tokens, the other {}", row, others.size() / tokens.size());
    }
  }
  for (std::size_t i = 0; i < next.size(); ++i) {
    if (next[i] < 0 || static_cast<std::size_t>(next[i]) >= row)
      return invalid("the model has {} tokens, not {}", row, next[i]);
    TESSERA_TRY(const std::vector<double> of_own, log_probabilities(own.subspan(i * row, row)));
    sums->log_likelihood += of_own[static_cast<std::size_t>(next[i])];
    ++sums->tokens;
    if (other == nullptr) continue;
    TESSERA_TRY(const std::vector<double> of_other,
                log_probabilities(others.subspan(i * row, row)));
    compare(of_own, of_other, next[i], sums);
  }
  return {};
}

}  // namespace

Result<Perplexity> perplexity(LanguageModel& model, LanguageModel* other,
                              std::span<const Token> text, std::optional<Token> begin) {
  if (text.size() < 2) return invalid("the text has {} of the two tokens needed", text.size());
  std::vector<Token> all(text.begin(), text.end());
  if (begin) all.insert(all.begin(), *begin);
  std::int64_t room = model.capacity(), at_once = model.most_each();
  if (other != nullptr) {
    room = std::min(room, other->capacity());
    at_once = std::min(at_once, other->most_each());
  }
  const auto most = static_cast<std::size_t>(room), part = static_cast<std::size_t>(at_once);
  Sums sums;
  // The last token of a piece is the first of the next one: each is predicted once.
  for (std::size_t at = 0; at + 1 < all.size(); at += most) {
    const std::span<const Token> rest = std::span(all).subspan(at);
    const std::span<const Token> read = rest.first(std::min(most, rest.size() - 1));
    std::vector<Token> piece(read.begin(), read.end());
    if (begin) piece[0] = *begin;
    model.rewind(0);
    if (other != nullptr) other->rewind(0);
    for (std::size_t i = 0; i < piece.size(); i += part) {
      const std::size_t count = std::min(part, piece.size() - i);
      TESSERA_DO(read_part(model, other, std::span(piece).subspan(i, count),
                           rest.subspan(i + 1, count), &sums));
    }
  }
  const auto count = static_cast<double>(sums.tokens);
  Perplexity out{sums.tokens, std::exp(-sums.log_likelihood / count), {}};
  if (other != nullptr) {
    out.beside = Perplexity::Beside{std::exp(-sums.other_log_likelihood / count),
                                    static_cast<double>(sums.same_likeliest) / count,
                                    sums.divergence / count};
  }
  return out;
}

}  // namespace tessera::app
