#include "tessera/search/selection.h"

#include <gtest/gtest.h>

#include "toy_space.h"

namespace tessera::search {
namespace {

using testing::make_toy_space;

decide::Candidate point(std::int32_t first, std::int32_t second) {
  return {0, {first, second, 0, 0, 0, 0}};
}

// Scores and spreads that a test states.
class StatedScorer final : public Scorer {
 public:
  StatedScorer(std::vector<float> scores, std::vector<float> spreads)
      : scores_(std::move(scores)), spreads_(std::move(spreads)) {}
  bool ready() const override { return true; }
  std::vector<float> score(std::span<const decide::Candidate>) override { return scores_; }
  std::vector<float> spread(std::span<const decide::Candidate>) override { return spreads_; }

 private:
  std::vector<float> scores_, spreads_;
};

TEST(Selection, BatchesAreTheBestUnseenOnce) {
  History history(2);
  history.claim(point(0, 0));
  const auto batch = pick_batch(
      {{point(1, 0), 1}, {point(0, 0), 9}, {point(2, 0), 3}, {point(2, 0), 3}, {point(3, 0), 2}}, 2,
      {}, history);
  EXPECT_EQ(batch, (std::vector<decide::Candidate>{point(2, 0), point(3, 0)}));
  EXPECT_TRUE(history.seen(point(3, 0)));
  EXPECT_FALSE(history.seen(point(1, 0)));
}

TEST(Selection, DiversityTradesScoreForNewValues) {
  // The second best differs from the best in nothing but one value; the third in two.
  const std::vector<Ranked> ranked = {
      {point(1, 1), 1.0}, {point(1, 2), 0.99}, {point(5, 6), 0.9}, {point(7, 7), -5}};
  PolicyOptions options;
  options.diversity_factor = 2;
  const auto pick = [&](double diversity) {
    History history(2);
    options.diversity = diversity;
    return pick_batch(ranked, 2, options, history);
  };
  EXPECT_EQ(pick(0).back(), point(1, 2));
  EXPECT_EQ(pick(0.01).back(), point(1, 2));
  EXPECT_EQ(pick(1).back(), point(5, 6));
  // The short list has four places, but a poor score is not outweighed.
  EXPECT_EQ(pick(1).front(), point(1, 1));
}

TEST(Selection, AcquisitionWeighsScoreAndSpread) {
  const std::vector<decide::Candidate> two = {point(0, 1), point(0, 2)};
  StatedScorer scorer({1.0f, 0.8f}, {0.1f, 0.5f});
  const auto mean = acquisition(scorer, two, "mean", 0);
  EXPECT_GT(mean[0], mean[1]);
  const auto ucb = acquisition(scorer, two, "ucb", 0);
  EXPECT_FLOAT_EQ(static_cast<float>(ucb[1]), 1.3f);
  const auto ei = acquisition(scorer, two, "ei", 1.2);
  // At the incumbent minus two deviations against minus 0.8 of them.
  EXPECT_NEAR(ei[0], 0.1 * 0.008491, 1e-5);
  EXPECT_NEAR(ei[1], 0.5 * 0.120207, 1e-5);
  StatedScorer unsure({1.0f, 0.8f}, {});
  EXPECT_EQ(acquisition(unsure, two, "ei", 1.2), mean);
}

TEST(Selection, SketchesThatDoBadlyGetFewerSamples) {
  History history(2);
  std::vector<Observation> observations;
  for (std::int32_t i = 0; i < 8; ++i) {
    observations.push_back({{0, {i, 0, 0, 0, 0, 0}}, 1.0 + i, false});
    observations.push_back({{1, {i, 0, 0, 0, 0, 0}}, 3.0 + i, false});
  }
  history.observe({observations.data(), 8});
  EXPECT_EQ(history.sketch_weights(), (std::vector<double>{1, 1})) << "too early to judge";
  history.observe({observations.data() + 8, 8});
  const std::vector<double> weights = history.sketch_weights();
  EXPECT_DOUBLE_EQ(weights[0], 1);
  EXPECT_LT(weights[1], 0.05);
  EXPECT_GT(weights[1], 0);
  const space::Space space = make_toy_space(8);
  Rng rng(1);
  int second = 0;
  for (const decide::Candidate& c : draw_weighted(space, weights, 300, rng)) second += c.sketch;
  EXPECT_LT(second, 30);
}

TEST(Selection, SmallBatchesGetTheirShareOfRandomCandidates) {
  Rng rng(1);
  std::size_t sum = 0;
  for (int i = 0; i < 1000; ++i) sum += random_count(4, 0.05, rng);
  EXPECT_NEAR(static_cast<double>(sum), 200, 50);
  EXPECT_EQ(random_count(10, 1, rng), 10u);
  EXPECT_EQ(random_count(10, 0, rng), 0u);
}

TEST(Selection, CensoredTimesAreNoBest) {
  History history(1);
  const Observation censored{{0, {1}}, 0.5, true}, timed{{0, {2}}, 2, false},
      failed{{0, {3}}, 0, false};
  history.observe(std::vector<Observation>{censored, timed, failed});
  ASSERT_EQ(history.fastest().size(), 1u);
  EXPECT_EQ(history.fastest()[0].seconds, 2);
  EXPECT_EQ(history.all().size(), 3u);
  EXPECT_FALSE(history.claim(failed.candidate));
}

}  // namespace
}  // namespace tessera::search
