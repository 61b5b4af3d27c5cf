#include "tessera/learn/model/guard.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/support/rng.h"

namespace tessera::model {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Candidates of random speed; each predictor sees the speed with noise of its own deviation.
// A deviation below 0: it orders them the wrong way round.
void run(Guard& guard, int candidates, const std::array<double, kPredictors>& noise,
         std::uint64_t seed) {
  Rng rng(seed);
  for (int i = 0; i < candidates; ++i) {
    const double speed = 0.2 + 0.8 * rng.uniform();
    PredictorScores scores;
    for (std::size_t p = 0; p < kPredictors; ++p) {
      const double error = std::abs(noise[p]) * (2 * rng.uniform() - 1);
      scores[p] = static_cast<float>((noise[p] < 0 ? -speed : speed) + error);
    }
    guard.observe(scores, 1e-3 / speed, i / 16);
  }
}

TEST(Guard, BelievesBothBeforeThereIsEvidence) {
  const Guard guard;
  EXPECT_EQ(guard.choose(false, false), Predictor::kNone);
  EXPECT_EQ(guard.choose(true, false), Predictor::kGlobal);
  EXPECT_EQ(guard.choose(false, true), Predictor::kLocal);
  EXPECT_EQ(guard.choose(true, true), Predictor::kBoth);
  EXPECT_EQ(guard.accuracy(Predictor::kGlobal), 0.5);
}

TEST(Guard, KeepsAGlobalModelThatIsRight) {
  Guard guard;
  run(guard, 64, {0.05, 1.0, 0.05}, 1);
  EXPECT_GT(guard.accuracy(Predictor::kGlobal), 0.9);
  EXPECT_NE(guard.choose(true, true), Predictor::kLocal);
}

TEST(Guard, DropsAGlobalModelThatMispredicts) {
  Guard guard;
  run(guard, 64, {-0.05, 0.1, 0.9}, 2);
  EXPECT_LT(guard.accuracy(Predictor::kGlobal), 0.2);
  EXPECT_EQ(guard.choose(true, true), Predictor::kLocal);
  EXPECT_EQ(guard.choose(true, false), Predictor::kNone);
}

TEST(Guard, RoundsOfFewCandidatesAreEvidenceToo) {
  Guard guard;
  Rng rng(5);
  for (int i = 0; i < 64; ++i) {
    const double speed = 0.2 + 0.8 * rng.uniform();
    guard.observe({static_cast<float>(-speed), kNaN, kNaN}, 1e-3 / speed, i / 4);
  }
  EXPECT_LT(guard.accuracy(Predictor::kGlobal), 0.1);
  EXPECT_EQ(guard.choose(true, false), Predictor::kNone);
}

TEST(Guard, ChangesItsMindWhenTheEvidenceDoes) {
  Guard guard;
  run(guard, 64, {0.9, 0.05, 0.9}, 3);
  EXPECT_EQ(guard.choose(true, true), Predictor::kLocal);
  run(guard, 200, {0.1, 0.9, 0.1}, 4);
  EXPECT_NE(guard.choose(true, true), Predictor::kLocal);
}

TEST(Guard, ComparesNeitherAcrossVersionsNorWhatHasNoScore) {
  Guard guard;
  for (int i = 0; i < 20; ++i)
    guard.observe({static_cast<float>(-i), kNaN, kNaN}, 1e-3 * (20 - i), i);
  EXPECT_EQ(guard.accuracy(Predictor::kGlobal), 0.5);
  for (int i = 0; i < 20; ++i) guard.observe({1, kNaN, kNaN}, 0, 99);
  EXPECT_EQ(guard.accuracy(Predictor::kGlobal), 0.5) << "failures have no order";
  guard.observe({2, kNaN, kNaN}, 1e-3, 99);
  EXPECT_GT(guard.accuracy(Predictor::kGlobal), 0.9);
  EXPECT_EQ(guard.accuracy(Predictor::kLocal), 0.5);
}

}  // namespace
}  // namespace tessera::model
