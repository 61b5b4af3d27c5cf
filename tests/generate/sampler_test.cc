#include "tessera/app/generate/sampler.h"

#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

namespace tessera::app {
namespace {

using tokenizer::Token;
using Choices = std::vector<Sampler::Choice>;

std::vector<float> random_logits(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<float>(12 * rng.uniform() - 6));
  return out;
}

Choices choices(const SamplerOptions& options, const std::vector<float>& logits,
                const std::vector<Token>& before = {}) {
  Result<Choices> out = Sampler(options).choices(logits, before);
  EXPECT_TRUE(out.ok()) << out.error().message;
  return std::move(*out);
}

TEST(Sampler, TakesTheFirstOfTheLikeliest) {
  Sampler greedy({});
  EXPECT_EQ(*greedy.pick(std::vector<float>{1, 3, 3, 2}, {}), 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(*greedy.pick(std::vector<float>{nan, -1, nan}, {}), 1) << "NaN is impossible";
}

TEST(Sampler, FailsWhereNothingIsPossible) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& logits : {std::vector<float>{},
                                           {-kInf, -kInf},
                                           {std::numeric_limits<float>::quiet_NaN()},
                                           {1, kInf}}) {
    const Result<Token> picked = Sampler({}).pick(logits, {});
    ASSERT_FALSE(picked.ok());
    EXPECT_EQ(picked.error().code, ErrorCode::kRunFailed);
  }
}

TEST(Sampler, ProbabilitiesAreThoseOfSoftmax) {
  for (const double temperature : {0.3, 1.0, 2.5}) {
    const std::vector<float> logits = random_logits(500, 3);
    double sum = 0;
    for (const float l : logits) sum += std::exp(l / temperature);
    const Choices all = choices({.temperature = temperature}, logits);
    ASSERT_EQ(all.size(), logits.size());
    for (const Sampler::Choice& c : all) {
      const double want = std::exp(logits[static_cast<std::size_t>(c.token)] / temperature) / sum;
      EXPECT_NEAR(c.probability / want, 1, 1e-12);
    }
  }
}

TEST(Sampler, FiltersKeepTheLikeliest) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> logits = random_logits(200, seed);
    const Choices all = choices({.temperature = 1}, logits);
    for (std::size_t i = 1; i < all.size(); ++i)
      ASSERT_GE(all[i - 1].probability, all[i].probability);
    const auto expect_prefix = [&](const Choices& some) {
      double sum = 0;
      for (std::size_t i = 0; i < some.size(); ++i) {
        EXPECT_EQ(some[i].token, all[i].token);
        sum += some[i].probability;
      }
      EXPECT_NEAR(sum, 1, 1e-12);
    };
    const Choices k = choices({.temperature = 1, .top_k = 7}, logits);
    EXPECT_EQ(k.size(), 7u);
    expect_prefix(k);
    const Choices p = choices({.temperature = 1, .top_p = 0.8}, logits);
    expect_prefix(p);
    double share = 0;  // one fewer would be too few
    for (std::size_t i = 0; i + 1 < p.size(); ++i) share += all[i].probability;
    EXPECT_LT(share, 0.8);
    EXPECT_GE(share + all[p.size() - 1].probability, 0.8 - 1e-12);
    const Choices m = choices({.temperature = 1, .min_p = 0.1}, logits);
    expect_prefix(m);
    EXPECT_GE(all[m.size() - 1].probability, 0.1 * all[0].probability);
    EXPECT_LT(all[m.size()].probability, 0.1 * all[0].probability);
    const Choices both = choices({.temperature = 1, .top_k = 7, .top_p = 0.5}, logits);
    EXPECT_LE(both.size(), 7u);
    expect_prefix(both);
  }
}

TEST(Sampler, PenaltyMakesTokensThatWereThereLessLikely) {
  const std::vector<float> logits = {2, -2, 1};
  const Choices plain = choices({.temperature = 1}, logits, {0, 1, 0});
  const Choices less = choices({.repeat_penalty = 2, .temperature = 1}, logits, {0, 1, 0, -4, 99});
  std::map<Token, double> odds;
  for (const Sampler::Choice& c : less) odds[c.token] = c.probability;
  EXPECT_NEAR(odds[0] / odds[2], 1, 1e-12) << "2 / 2 and 1: once, not for each time";
  EXPECT_NEAR(odds[1] / odds[2], std::exp(-5), 1e-12) << "-2 * 2 and 1";
  EXPECT_EQ(plain[0].token, 0);
}

TEST(Sampler, DrawsAsOftenAsTheProbabilitiesSay) {
  const std::vector<float> logits = {0, 1, 2, -40};
  Sampler sampler({.temperature = 1, .seed = 5});
  std::map<Token, int> count;
  for (int i = 0; i < 20000; ++i) ++count[*sampler.pick(logits, {})];
  const double sum = 1 + std::exp(1) + std::exp(2);
  for (const int token : {0, 1, 2})
    EXPECT_NEAR(count[token] / 20000.0, std::exp(token) / sum, 0.015) << token;
  EXPECT_EQ(count[3], 0);
}

// The same on every machine and with every compiler.
TEST(Sampler, TheSeedFixesTheTokens) {
  Sampler a({.temperature = 0.8, .top_p = 0.95, .seed = 42});
  Sampler b({.temperature = 0.8, .top_p = 0.95, .seed = 42});
  std::vector<Token> first, again;
  for (std::uint64_t i = 0; i < 8; ++i) {
    first.push_back(*a.pick(random_logits(100, i), {}));
    again.push_back(*b.pick(random_logits(100, i), {}));
  }
  EXPECT_EQ(first, again);
  EXPECT_EQ(first, (std::vector<Token>{50, 72, 86, 95, 37, 99, 46, 12}));
}

TEST(Sampler, RefusesNumbersOutOfRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto reason = [](const SamplerOptions& o) {
    const Result<void> good = check(o);
    return good.ok() ? "accepted" : good.error().message;
  };
  EXPECT_EQ(reason({}), "accepted");
  EXPECT_EQ(reason({.temperature = -1}), "the temperature is -1; it must be from 0 to 1000");
  EXPECT_NE(reason({.temperature = nan}).find("the temperature"), std::string::npos);
  EXPECT_NE(reason({.top_k = -1}).find("top-k is -1"), std::string::npos);
  EXPECT_NE(reason({.top_p = 0}).find("top-p is 0"), std::string::npos);
  EXPECT_NE(reason({.top_p = 1.5}).find("top-p is 1.5"), std::string::npos);
  EXPECT_NE(reason({.min_p = 2}).find("min-p is 2"), std::string::npos);
  EXPECT_NE(reason({.repeat_penalty = 0}).find("the repetition penalty is 0"), std::string::npos);
}

}  // namespace
}  // namespace tessera::app
