#include "tessera/trials/measure/measurer.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "tests/measure/workers.h"

namespace tessera::measure {
namespace {

const char* const kMatmul = "matmul:M=64,N=64,K=64";
const char* const kTiled =
    "split C i 4 tail=peel\nsplit C j 16 tail=peel\n"
    "reorder C i.0 j.0 k i.1 j.1\nannotate C j.1 vectorize\n"
    "annotate C i.1 unroll\nannotate C i.0 parallel\n";

class MeasurerThreads : public ::testing::TestWithParam<int> {};

TEST_P(MeasurerThreads, GoodTrialsGiveSamples) {
  const te::Dag matmul = dag_of(kMatmul), softmax = dag_of("softmax:R=16,C=100");
  const auto measurer = start({matmul, softmax}, {.threads = GetParam()});
  measurer->submit({{
                        .id = 1,
                    },
                    {.id = 2, .steps = steps(kTiled)},
                    {.id = 3, .task = "1", .steps = default_steps(softmax)},
                    {.id = 4, .steps = default_steps(matmul), .final = true}});
  EXPECT_EQ(measurer->pending(), 4u);
  const std::vector<Measurement> all = collect_all(*measurer);
  ASSERT_EQ(all.size(), 4u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Measurement& m = all[i];
    EXPECT_EQ(m.id, i + 1);
    EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
    EXPECT_EQ(m.reason, "");
    EXPECT_FALSE(m.samples_s.empty());
    EXPECT_GT(m.seconds(), 1e-8);
    EXPECT_LT(m.seconds(), 1);
    EXPECT_GT(m.calibration_s, 0);
    EXPECT_GT(m.build_ms, 0);
    EXPECT_GT(m.run_ms, 0);
  }
  // Loops without vectors are slower whatever else runs.
  EXPECT_GT(all[0].seconds(), all[3].seconds());
  const MachineState machine = measurer->machine();
  EXPECT_GT(machine.calibration_s, 0);
  EXPECT_LE(machine.calibration_best_s, machine.calibration_s);
  EXPECT_GE(machine.waiting_share, 0);
}

INSTANTIATE_TEST_SUITE_P(All, MeasurerThreads, ::testing::Values(1, 2));

TEST(Measurer, PacksConstants) {
  const te::Dag dense = dag_of("dense:M=5,N=10,K=7");
  const auto measurer = start({dense}, {});
  const Measurement m =
      measure_one(*measurer, {.steps = steps("layout W d0/4 d1 d0%4\nsplit C j 4 tail=peel\n")});
  EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
}

TEST(Measurer, BadSchedulesAreBuildErrorsWithAReason) {
  const auto measurer = start({dag_of(kMatmul)}, {});
  const schedule::Split nothing{.stage = std::string("\xff\x00\x01 \n\n;;", 8)};
  measurer->submit({{.id = 1, .steps = steps("split C z 4\n")},
                    {.id = 2, .steps = steps("split C i 4\nsplit D i 4\n")},
                    {.id = 3, .steps = {{nothing}}},
                    {.id = 4, .steps = steps("annotate C i threadIdx.x\n")},
                    {.id = 5, .task = "9"},
                    {.id = 6}});
  const std::vector<Measurement> all = collect_all(*measurer);
  ASSERT_EQ(all.size(), 6u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].outcome, Outcome::kBuildError) << i;
    EXPECT_NE(all[i].reason, "");
    EXPECT_TRUE(std::isinf(all[i].seconds()));
  }
  EXPECT_NE(all[1].reason.find("no stage D"), std::string::npos) << all[1].reason;
  EXPECT_EQ(all[4].outcome, Outcome::kInvalidStatic);
  EXPECT_EQ(all[5].outcome, Outcome::kOk) << all[5].reason;
}

TEST(Measurer, LosersAreCensored) {
  const auto measurer = start({dag_of(kMatmul)}, {});
  const Measurement m = measure_one(*measurer, {.incumbent_s = 1e-7});
  EXPECT_EQ(m.outcome, Outcome::kCensored) << m.reason;
  EXPECT_GT(m.seconds(), 1e-7);
  const Measurement full = measure_one(*measurer, {.incumbent_s = 1e-7, .final = true});
  EXPECT_EQ(full.outcome, Outcome::kOk) << full.reason;
}

TEST(Measurer, CancelForgetsAndGoesOn) {
  const auto measurer = start({dag_of(kMatmul)}, {});
  std::vector<Trial> many;
  for (std::uint64_t i = 0; i < 50; ++i) many.push_back({.id = i, .steps = steps(kTiled)});
  measurer->submit(many);
  EXPECT_FALSE(measurer->collect(10).empty());
  measurer->cancel();
  EXPECT_EQ(measurer->pending(), 0u);
  EXPECT_TRUE(measurer->collect(0.01).empty());
  const Measurement m = measure_one(*measurer, {.id = 77, .steps = steps(kTiled)});
  EXPECT_EQ(m.id, 77u);
  EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
}

TEST(Measurer, ComparesSideBySide) {
  const te::Dag dag = dag_of(kMatmul);
  const auto measurer = start({dag}, {.trial_limit_s = 0.1});
  measurer->submit({{.id = 40, .steps = steps(kTiled)}});
  const std::vector<Measurement> all =
      measurer->compare({{.id = 9},
                         {.id = 8, .steps = steps("split D i 4\n")},
                         {.id = 7, .task = "3"},
                         {.id = 6, .steps = steps(kTiled)}});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].id, 9u);
  EXPECT_EQ(all[0].outcome, Outcome::kOk) << all[0].reason;
  EXPECT_EQ(all[1].outcome, Outcome::kBuildError);
  EXPECT_EQ(all[2].outcome, Outcome::kInvalidStatic);
  EXPECT_EQ(all[3].id, 6u);
  EXPECT_EQ(all[3].outcome, Outcome::kOk) << all[3].reason;
  EXPECT_GT(all[0].seconds(), all[3].seconds());
  EXPECT_TRUE(measurer->compare({}).empty());
  EXPECT_TRUE(measurer->compare({{.id = 1, .task = "5"}})[0].outcome == Outcome::kInvalidStatic);
  const std::vector<Measurement> rest = collect_all(*measurer);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].id, 40u);
}

TEST(Measurer, TimesGroupsSideBySideWhileOthersAreBuilt) {
  const auto measurer = start({dag_of(kMatmul)}, {.max_samples = 4, .trial_limit_s = 0.1});
  measurer->submit_together(
      {{.id = 1}, {.id = 2, .steps = steps("split D i 4\n")}, {.id = 3, .steps = steps(kTiled)}});
  measurer->submit_together({{.id = 4, .steps = steps(kTiled)}, {.id = 5, .task = "3"}});
  std::map<std::uint64_t, Outcome> outcomes;
  for (const Measurement& m : collect_all(*measurer)) {
    outcomes[m.id] = m.outcome;
    EXPECT_EQ(m.samples_s.size() > 1, m.outcome == Outcome::kOk);
  }
  const std::map<std::uint64_t, Outcome> want = {{1, Outcome::kOk},
                                                 {2, Outcome::kBuildError},
                                                 {3, Outcome::kOk},
                                                 {4, Outcome::kOk},
                                                 {5, Outcome::kInvalidStatic}};
  EXPECT_EQ(outcomes, want);
}

TEST(Measurer, ColdCaches) {
  const te::Dag dag = dag_of(kMatmul);
  const auto measurer = start({dag}, {.max_samples = 4, .cold_caches = true});
  const Measurement m = measure_one(*measurer, {.steps = steps(kTiled)});
  EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
  const std::vector<Measurement> all =
      measurer->compare({{.id = 1, .steps = steps(kTiled)}, {.id = 2}});
  EXPECT_EQ(all[0].outcome, Outcome::kOk) << all[0].reason;
  EXPECT_EQ(all[1].outcome, Outcome::kOk) << all[1].reason;
}

TEST(Measurer, TwoAtOnceDoNotMix) {
  const te::Dag dag = dag_of(kMatmul);
  const auto first = start({dag}, {});
  auto second = start({dag}, {.threads = 2});
  first->submit({{.id = 1, .steps = steps(kTiled)}, {.id = 2}});
  second->submit({{.id = 3}, {.id = 4, .steps = steps(kTiled)}});
  const std::vector<Measurement> a = collect_all(*first), b = collect_all(*second);
  ASSERT_EQ(a.size(), 2u);
  ASSERT_EQ(b.size(), 2u);
  EXPECT_EQ(a[0].id, 1u);
  EXPECT_EQ(b[0].id, 3u);
  second.reset();
  EXPECT_EQ(measure_one(*first, {.steps = steps(kTiled)}).outcome, Outcome::kOk);
}

TEST(Measurer, RefusesNonsense) {
  const std::vector<MeasuredTask> tasks = {{"", dag_of(kMatmul)}};
  EXPECT_FALSE(start_local_measurer(tasks, target::host(), {.threads = 0}).ok());
  EXPECT_FALSE(start_local_measurer(tasks, target::host(), {.build_workers = -1}).ok());
  EXPECT_FALSE(start_local_measurer(tasks, target::host(), {.min_samples = 0}).ok());
  EXPECT_FALSE(start_local_measurer(tasks, target::host(), {.run_timeout_s = 0}).ok());
  const char* foreign =
      target::host().arch == target::Arch::kAArch64 ? "skylake-avx512" : "neoverse-v1";
  EXPECT_FALSE(start_local_measurer(tasks, target::find_target(foreign).value(), {}).ok());
}

}  // namespace
}  // namespace tessera::measure
