#include "tessera/app/generate/perplexity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

namespace tessera::app {
namespace {

using tokenizer::Token;

constexpr std::size_t kWords = 5;

// Logits that follow from the tokens read so far.
class Adder final : public LanguageModel {
 public:
  explicit Adder(double scale, std::size_t words = kWords) : scale_(scale), words_(words) {}

  Result<std::span<const float>> step(std::span<const Token> tokens) override {
    return step_each(tokens);
  }
  Result<std::span<const float>> step_each(std::span<const Token> tokens) override {
    EXPECT_LE(std::ssize(tokens), each);
    rows_.clear();
    for (const Token t : tokens) {
      read_.push_back(t);
      for (const double v : logits(read_)) rows_.push_back(static_cast<float>(v));
    }
    EXPECT_LE(std::ssize(read_), room);
    return std::span<const float>(rows_);
  }
  std::int64_t most_each() const override { return each; }
  void rewind(std::int64_t to) override { read_.resize(static_cast<std::size_t>(to)); }
  std::int64_t capacity() const override { return room; }

  std::vector<double> logits(const std::vector<Token>& read) const {
    const double sum = std::accumulate(read.begin(), read.end(), 0.0);
    std::vector<double> out;
    for (std::size_t w = 0; w < words_; ++w)
      out.push_back(scale_ * std::sin(scale_ * sum + static_cast<double>(w * read.size())) + shift);
    return out;
  }
  // By the definition.
  std::vector<double> probabilities(const std::vector<Token>& read) const {
    std::vector<double> out = logits(read);
    double sum = 0;
    for (double& v : out) {
      v = std::exp(v);
      sum += v;
    }
    for (double& v : out) v /= sum;
    return out;
  }

  std::int64_t room = 100, each = 4;
  double shift = 0;

 private:
  double scale_;
  std::size_t words_;
  std::vector<Token> read_;
  std::vector<float> rows_;
};

const std::vector<Token> kText = {1, 4, 0, 2, 2, 3, 1, 0, 4, 4, 3};

void expect_near(double got, double want) { EXPECT_NEAR(got, want, 1e-5 * (std::abs(want) + 1)); }

TEST(Perplexity, IsThatOfTheProbabilities) {
  Adder model(2), other(1.5);
  double log_likelihood = 0, other_log_likelihood = 0, divergence = 0;
  int same = 0;
  for (std::size_t i = 1; i < kText.size(); ++i) {
    const std::vector<Token> read(kText.begin(), kText.begin() + static_cast<std::ptrdiff_t>(i));
    const std::vector<double> q = model.probabilities(read), p = other.probabilities(read);
    log_likelihood += std::log(q[static_cast<std::size_t>(kText[i])]);
    other_log_likelihood += std::log(p[static_cast<std::size_t>(kText[i])]);
    for (std::size_t w = 0; w < kWords; ++w) divergence += p[w] * std::log(p[w] / q[w]);
    same += std::ranges::max_element(p) - p.begin() == std::ranges::max_element(q) - q.begin();
  }
  const auto count = static_cast<double>(kText.size() - 1);
  const auto got = perplexity(model, &other, kText, {});
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(got->tokens, 10);
  expect_near(got->value, std::exp(-log_likelihood / count));
  ASSERT_TRUE(got->beside.has_value());
  expect_near(got->beside->value, std::exp(-other_log_likelihood / count));
  expect_near(got->beside->divergence, divergence / count);
  expect_near(got->beside->same_likeliest, same / count);
  EXPECT_TRUE(0 < same && same < 10) << same;

  model.shift = 1000;  // the same probabilities
  const auto alone = perplexity(model, nullptr, kText, {});
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_FALSE(alone->beside.has_value());
  EXPECT_NEAR(alone->value, got->value, 1e-3);
}

TEST(Perplexity, PredictsEachTokenOnceInPieces) {
  Adder model(2), other(1);
  model.room = 4;
  for (const bool begins : {false, true}) {
    // By hand: pieces of four tokens that are read, the fifth is the last that is predicted.
    std::vector<Token> all = kText;
    if (begins) all.insert(all.begin(), Token{3});
    double log_likelihood = 0;
    std::vector<Token> read;
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      if (i % 4 == 0) read.clear();
      read.push_back(begins && i % 4 == 0 ? Token{3} : all[i]);
      log_likelihood += std::log(model.probabilities(read)[static_cast<std::size_t>(all[i + 1])]);
    }
    const auto got =
        perplexity(model, &other, kText, begins ? std::optional<Token>(3) : std::nullopt);
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(got->tokens, begins ? 11 : 10);
    expect_near(got->value, std::exp(-log_likelihood / static_cast<double>(got->tokens)));
  }
}

TEST(Perplexity, SaysWhatIsWrong) {
  Adder model(1), larger(1, kWords + 1);
  EXPECT_EQ(perplexity(model, nullptr, {}, {}).error().message,
            "the text has 0 of the two tokens needed");
  EXPECT_EQ(perplexity(model, nullptr, std::span(kText).first(1), 3).error().message,
            "the text has 1 of the two tokens needed");
  EXPECT_EQ(perplexity(model, &larger, kText, {}).error().message,
            "one model knows 5 tokens, the other 6");
  const std::vector<Token> unknown = {1, 7};
  EXPECT_EQ(perplexity(model, nullptr, unknown, {}).error().message,
            "the model has 5 tokens, not 7");
  model.shift = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(perplexity(model, nullptr, kText, {}).error().code, ErrorCode::kRunFailed);
}

}  // namespace
}  // namespace tessera::app
