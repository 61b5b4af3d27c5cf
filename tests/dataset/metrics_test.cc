#include "tessera/learn/dataset/metrics.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "dataset_case.h"

namespace tessera::dataset {
namespace {

constexpr double kNear = 1e-6;

TEST(Metrics, OfAPerfectScore) {
  const std::vector<float> labels = {1, 0.5f, 0.25f, 0.125f};
  const Metrics m = task_metrics(labels, labels);
  EXPECT_EQ(m.rmse, 0);
  EXPECT_EQ(m.r2, 1);
  EXPECT_EQ(m.mape, 0);
  EXPECT_EQ(m.pairwise, 1);
  EXPECT_EQ(m.kendall, 1);
  for (const int k : {1, 5, 10}) {
    EXPECT_EQ(m.recall.at(k), 1);
    EXPECT_EQ(m.peak.at(k), 1);
    EXPECT_EQ(m.slowdown.at(k), 0);
  }
}

TEST(Metrics, ByHand) {
  const std::vector<float> labels = {1, 0.5f, 0.25f, 0.5f};
  const std::vector<float> scores = {0.5f, 1, 0, 0.5f};  // the second is chosen first
  const Metrics m = task_metrics(scores, labels);
  EXPECT_NEAR(m.rmse, std::sqrt((0.25 + 0.25 + 0.0625 + 0) / 4), kNear);
  EXPECT_NEAR(m.mape, (0.5 + 1 + 1 + 0) / 4, kNear);
  // Pairs with different labels: 01 wrong, 02 right, 03 tied, 12 right, 23 right.
  EXPECT_NEAR(m.pairwise, 3.5 / 5, kNear);
  EXPECT_NEAR(m.kendall, (3 - 1) / std::sqrt(5.0 * 5.0), kNear);
  EXPECT_EQ(m.recall.at(1), 0);
  EXPECT_NEAR(m.peak.at(1), 0.5, kNear);
  EXPECT_NEAR(m.slowdown.at(1), 1, kNear);
  EXPECT_NEAR(m.peak.at(5), (0.5 + 0.5 + 1 + 1) / 4, kNear);  // of equal scores the slower first
  EXPECT_EQ(m.slowdown.at(5), 0);
}

TEST(Metrics, ConstantScoresAreWorthACoin) {
  const std::vector<float> labels = {1, 0.5f, 0.25f}, same = {3, 3, 3};
  EXPECT_EQ(task_metrics(same, labels).pairwise, 0.5);
  EXPECT_EQ(task_metrics(same, labels).kendall, 0);
  EXPECT_EQ(task_metrics(std::vector<float>{1}, std::vector<float>{1}).pairwise, 0.5);
  EXPECT_EQ(task_metrics({}, {}).records, 0);
}

TEST(Metrics, AScoreThatIsNoNumberIsChosenLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Metrics m = task_metrics(std::vector<float>{nan, 1, 2}, std::vector<float>{0.1f, 0.2f, 1});
  EXPECT_EQ(m.recall.at(1), 1);
}

// Two tasks of weights 1 and 2 with times 1..n; TenSet's sums by hand.
TEST(Evaluate, WeighsTasksByTheirUseAndTime) {
  Dataset d = plain_dataset(2, 16);
  for (Example& e : d.examples) e.seconds *= e.task == 0 ? 1.f : 10.f;
  d.examples[3].seconds = 0;  // failed: its score does not count
  const Split s{std::vector<std::uint8_t>(d.examples.size(), kTest)};
  std::vector<float> scores(d.examples.size());
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = -d.examples[i].seconds;
  scores[3] = 100;
  Evaluation e = evaluate(d, s, kTest, scores);
  EXPECT_EQ(e.top1, 1);
  EXPECT_EQ(e.average.pairwise, 1);
  EXPECT_EQ(e.average.records, 31);
  scores[2] = 1;       // of task 0 the one of 3 s is chosen first
  scores[16 + 7] = 1;  // of task 1 that of 80 s
  e = evaluate(d, s, kTest, scores);
  ASSERT_EQ(e.networks.size(), 1u);
  const NetworkScore& n = e.networks.at("n0");
  EXPECT_NEAR(n.top1, (1 * 1 + 2 * 10.) / (1 * 3 + 2 * 80.), kNear);
  EXPECT_NEAR(n.top5, 1, kNear);
  EXPECT_EQ(n.tasks, 2u);
  EXPECT_EQ(n.missing, 0u);
}

TEST(Evaluate, OnlyThePartCounts) {
  const Dataset d = plain_dataset(4, 16);
  Split s{std::vector<std::uint8_t>(d.examples.size(), kTrain)};
  for (std::size_t i = 0; i < 16; ++i) s.part[i] = kTest;
  const std::vector<float> scores(d.examples.size(), 1);
  const Evaluation e = evaluate(d, s, kTest, scores);
  ASSERT_EQ(e.networks.size(), 1u);
  EXPECT_EQ(e.networks.at("n0").missing, 1u);
  EXPECT_TRUE(evaluate(d, s, kValidation, scores).networks.empty());
}

}  // namespace
}  // namespace tessera::dataset
