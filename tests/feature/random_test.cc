// Extraction succeeds and is finite for whatever can be scheduled.
#include <cmath>

#include <gtest/gtest.h>

#include "feature_case.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/scheduling/space/space.h"
#include "tests/fuzz/random_dag.h"
#include "tests/fuzz/random_schedule.h"

namespace tessera::feature {
namespace {

constexpr FeatureKind kKinds[] = {FeatureKind::kStatement, FeatureKind::kLoop, FeatureKind::kCurve};

void expect_finite(const te::Dag& dag, const schedule::Schedule& schedule, Extractor* extractor) {
  const auto state = schedule::apply(dag, schedule);
  ASSERT_TRUE(state.ok()) << state.error().message;
  for (const FeatureKind kind : kKinds) {
    std::vector<float> rows, again;
    const auto result = extractor->extract(*state, kind, &rows);
    ASSERT_TRUE(result.ok()) << result.error().message << "\n" << schedule::to_text(schedule);
    ASSERT_FALSE(rows.empty());
    EXPECT_EQ(rows.size() % feature_names(kind).size(), 0u);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool sane = std::isfinite(rows[i]) && std::abs(rows[i]) < 1000;
      EXPECT_TRUE(sane) << feature_names(kind)[i % feature_names(kind).size()] << " = " << rows[i]
                        << "\n"
                        << schedule::to_text(schedule);
    }
    ASSERT_TRUE(extract(*state, test_target(), kind, &again).ok());
    EXPECT_EQ(rows, again);  // nothing is left over from the program before
  }
}

TEST(RandomFeatures, OfRandomSchedules) {
  Extractor extractor(test_target());
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    const fuzz::RandomDag dag = fuzz::random_dag(rng);
    expect_finite(dag.dag, fuzz::random_schedule(dag.dag, rng), &extractor);
  }
}

TEST(RandomFeatures, OfChosenSchedulesOfRandomDags) {
  Extractor extractor(test_target());
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    const fuzz::RandomDag dag = fuzz::random_dag(rng);
    const auto schedule = space::default_schedule(dag.dag, test_target());
    ASSERT_TRUE(schedule.ok());
    expect_finite(dag.dag, *schedule, &extractor);
  }
}

TEST(RandomFeatures, OfSampledCandidates) {
  Extractor extractor(test_target());
  const char* const specs[] = {
      "matmul:M=100,N=90,K=70", "conv2d:N=1,H=14,W=14,CI=32,CO=48,KH=3,KW=3,P=1",
      "conv2d:N=1,H=14,W=14,CI=16,CO=24,KH=3,KW=3,P=1,algo=winograd4", "softmax:R=16,C=100"};
  for (const char* spec : specs) {
    const auto space = space::make_space(dag_of(spec), test_target());
    ASSERT_TRUE(space.ok()) << space.error().message;
    Rng rng(7);
    for (int i = 0; i < 20; ++i) {
      const auto schedule = space->schedule(space->sample(rng));
      ASSERT_TRUE(schedule.ok()) << schedule.error().message;
      expect_finite(space->dag(), *schedule, &extractor);
    }
  }
}

}  // namespace
}  // namespace tessera::feature
