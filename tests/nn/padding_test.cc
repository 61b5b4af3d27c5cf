// A candidate is scored the same alone, in company and with padding behind it.
#include <cmath>

#include <gtest/gtest.h>

#include "candidates.h"

namespace tessera::nn {
namespace {

struct Case {
  std::string network;
  Hyper hyper;
  std::int64_t context = 3;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const NetworkEntry& entry : network_table()) {
    out.push_back({entry.name, {}, 3});
    out.push_back({entry.name, {}, 0});
  }
  return out;
}

void expect_same(const Outputs& whole, std::size_t at, const Outputs& alone) {
  EXPECT_NEAR(whole.score[at], alone.score[0], 2e-5);
  EXPECT_NEAR(whole.validity[at], alone.validity[0], 2e-5);
  EXPECT_NEAR(whole.log_time[at], alone.log_time[0], 2e-5);
}

class EveryNetwork : public ::testing::TestWithParam<Case> {};

TEST_P(EveryNetwork, ScoresACandidateTheSameAloneAndInAPaddedBatch) {
  const NetworkSpec spec = small_spec(GetParam().network, GetParam().hyper, GetParam().context);
  const auto weights = fresh_weights(spec, 1);
  Rng rng(2);
  std::vector<Candidate> candidates;
  for (const std::size_t rows : {5, 1, 3}) candidates.push_back(random_candidate(spec, rows, rng));
  const Outputs whole = run(spec, weights, candidates, 7);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    expect_same(whole, i, run(spec, weights, {candidates[i]}, candidates[i].rows.size()));
  }
  // Otherwise equality above says nothing.
  EXPECT_GT(std::abs(whole.score[0] - whole.score[1]), 1e-4);
  EXPECT_GT(std::abs(whole.score[0] - whole.score[2]), 1e-4);
}

TEST_P(EveryNetwork, GivesNumbersForACandidateWithoutRows) {
  const NetworkSpec spec = small_spec(GetParam().network, GetParam().hyper, GetParam().context);
  Rng rng(3);
  const Outputs out = run(spec, fresh_weights(spec, 1),
                          {random_candidate(spec, 0, rng), random_candidate(spec, 2, rng)}, 3);
  for (const std::size_t i : {0, 1}) {
    EXPECT_TRUE(std::isfinite(out.score[i]));
    EXPECT_TRUE(std::isfinite(out.validity[i]));
    EXPECT_TRUE(std::isfinite(out.log_time[i]));
  }
}

TEST_P(EveryNetwork, ReadsItsRowsAndItsContext) {
  const NetworkSpec spec = small_spec(GetParam().network, GetParam().hyper, GetParam().context);
  const auto weights = fresh_weights(spec, 1);
  Rng rng(4);
  const Candidate c = random_candidate(spec, 3, rng);
  const float score = run(spec, weights, {c}, 3).score[0];
  for (std::size_t r = 0; r < 3; ++r) {
    Candidate other = c;
    other.rows[r] = random_candidate(spec, 1, rng).rows[0];
    EXPECT_NE(run(spec, weights, {other}, 3).score[0], score) << "row " << r;
  }
  if (spec.context == 0) return;
  Candidate other = c;
  other.context[0] += 1;
  EXPECT_NE(run(spec, weights, {other}, 3).score[0], score);
}

INSTANTIATE_TEST_SUITE_P(Table, EveryNetwork, ::testing::ValuesIn(cases()), [](const auto& param) {
  return param.param.network + (param.param.context > 0 ? "" : "_without_context");
});

TEST(PaddedRows, AreFewSizesThatTheNetworkHolds) {
  const std::vector<std::int64_t> counts = {0, 1, 2, 3, 5, 7, 9, 11, 13, 17, 33, 49, 65, 128, 500};
  const std::vector<std::int64_t> plain = {2, 2, 2, 3, 5, 8, 10, 12, 16, 20, 48, 64, 128, 128, 128};
  const std::vector<std::int64_t> seen = {16, 16, 16, 16, 16,  16,  16, 16,
                                          16, 32, 64, 64, 128, 128, 128};
  const NetworkSpec mlp = small_spec("mlp"), unmasked = small_spec("atformer", {{"masked", 0}});
  EXPECT_FALSE(sees_padding(mlp));
  EXPECT_FALSE(sees_padding(small_spec("atformer")));
  EXPECT_TRUE(sees_padding(unmasked));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(padded_rows(mlp, counts[i]), plain[i]) << counts[i];
    EXPECT_EQ(padded_rows(unmasked, counts[i]), seen[i]) << counts[i];
  }
  EXPECT_EQ(padded_rows(small_spec("sequence"), 70), 9) << "its max_rows";
}

// As in the paper, this variant attends to padding: only the company must not matter.
TEST(UnmaskedAtformer, DependsOnPaddingButNotOnTheBatch) {
  const NetworkSpec spec = small_spec("atformer", {{"masked", 0}});
  const auto weights = fresh_weights(spec, 1);
  Rng rng(5);
  const Candidate a = random_candidate(spec, 2, rng), b = random_candidate(spec, 4, rng);
  const Outputs alone = run(spec, weights, {a}, 6);
  expect_same(run(spec, weights, {b, a}, 6), 1, alone);
  EXPECT_GT(std::abs(run(spec, weights, {a}, 2).score[0] - alone.score[0]), 1e-5);
}

}  // namespace
}  // namespace tessera::nn
