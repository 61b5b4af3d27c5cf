#include "tessera/app/tune/cold_tasks.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/app/tune/tune.h"
#include "tests/app/fake_measurer.h"
#include "tests/app/read_records.h"

namespace tessera::app {
namespace {

target::Target with_cache(std::int64_t bytes) {
  target::Target t = target::find_target("skylake-avx512").value();
  t.l2_bytes = 64 << 10;
  t.l3_bytes = bytes;
  t.threads = 1;
  return t;
}

bool has_constants(const TuneTask& t) {
  return std::ranges::any_of(t.task.dag.inputs, [](const te::Input& i) { return i.constant; });
}

TEST(ColdTasks, AreThoseWithConstantsOfModelsThatExceedTheCache) {
  const auto problem = make_tune_problem({{"zoo:lenet", false, {}}}, {});
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  const std::vector<bool> small = cold_tasks(*problem, with_cache(100 << 10));
  ASSERT_EQ(small.size(), problem->tasks.size());
  for (std::size_t t = 0; t < small.size(); ++t)
    EXPECT_EQ(small[t], has_constants(problem->tasks[t])) << problem->tasks[t].task.name;
  EXPECT_TRUE(std::ranges::count(small, true) > 0 && std::ranges::count(small, false) > 0);
  const std::vector<bool> large = cold_tasks(*problem, with_cache(64 << 20));
  EXPECT_EQ(std::ranges::count(large, true), 0);
}

// Of a GPU it is the second-level cache; operations of their own stay warm.
TEST(ColdTasks, FollowTheKindOfTheTarget) {
  target::Target h200 = target::find_target("h200").value();
  const auto model = make_tune_problem({{"zoo:lenet", false, {}}}, {});
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(std::ranges::count(cold_tasks(*model, h200), true), 0);
  h200.l2_bytes = 1 << 10;
  EXPECT_GT(std::ranges::count(cold_tasks(*model, h200), true), 0);
  const auto op = make_tune_problem({{"matmul:M=64,N=64,K=64", true, {}}}, {});
  ASSERT_TRUE(op.ok());
  EXPECT_EQ(std::ranges::count(cold_tasks(*op, h200), true), 0);
}

// Times with the constants in the cache are not taken for times without.
TEST(ColdTasks, TuningMeasuresThemSoAndKeepsTheirRecordsApart) {
  TuneOptions options;
  options.subjects = {{"zoo:lenet", false, {}}};
  options.target = target::host();
  options.target.l2_bytes = options.target.l3_bytes = 64 << 10;
  options.policy = "random";
  options.trials_per_task = 1;
  options.recombine = false;
  options.database = ::testing::TempDir() + "/cold_tasks.db";
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(options.database + end);
  std::size_t cold = 0;
  options.start_measurer = [&](const std::vector<measure::MeasuredTask>& tasks,
                               const auto&...) -> Result<std::unique_ptr<measure::Measurer>> {
    for (const measure::MeasuredTask& t : tasks) cold += t.cold_caches ? 1 : 0;
    return std::unique_ptr<measure::Measurer>(std::make_unique<FakeMeasurer>(
        [](const measure::Trial&, bool, measure::Measurement* m) { m->samples_s = {1e-3}; }));
  };
  const Result<TuneResult> first = tune(options, {});
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_GT(cold, 0u);
  std::int64_t reported = 0;
  for (const TaskReport& t : first->tasks) reported += t.cold ? 1 : 0;
  EXPECT_EQ(reported, static_cast<std::int64_t>(cold));
  EXPECT_GE(std::ranges::count_if(read_records(options.database), &record::Record::cold), reported);
  const Result<TuneResult> again = tune(options, {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->earlier, first->trials);
  // Nor are times where less was evicted: only those of warm tasks are taken again.
  TuneOptions less = options;
  less.measure.evicted_bytes = 12345;
  const Result<TuneResult> part = tune(less, {});
  ASSERT_TRUE(part.ok()) << part.error().message;
  EXPECT_LT(part->earlier, first->trials);
  EXPECT_GT(
      std::ranges::count(read_records(options.database), 12345, &record::Record::evicted_bytes), 0);
  const Result<TuneResult> more = tune(less, {});
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(more->earlier, first->trials);
  options.target.l3_bytes = 1 << 30;
  const Result<TuneResult> warm = tune(options, {});
  ASSERT_TRUE(warm.ok());
  EXPECT_EQ(warm->earlier, 0);
}

}  // namespace
}  // namespace tessera::app
