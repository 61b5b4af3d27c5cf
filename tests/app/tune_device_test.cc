// Tuning and collecting on a device at hand: PoCL where there is no GPU.
#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/app/collect/collect.h"
#include "tessera/app/tune/tune.h"
#include "tests/app/read_records.h"
#include "tests/testing/devices.h"

namespace tessera::app {
namespace {

class OnDevice : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Result<target::Target> found = measure::ask_target(GetParam());
    if (!testing::has_device(GetParam(), found)) GTEST_SKIP() << found.error().message;
    target_ = *found;
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    database_ =
        ::testing::TempDir() + "/" + GetParam() + "_" + std::to_string(test->line()) + ".db";
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(database_ + end);
  }

  std::vector<record::Record> records() const { return read_records(database_); }

  target::Target target_;
  std::string database_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, OnDevice, ::testing::Values("cuda", "opencl"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST_P(OnDevice, DecisionsOfAModelAreTuned) {
  TuneOptions options;
  options.subjects = {{"zoo:lenet@size=12", false, {}}};
  options.target = target_;
  options.level = TuneLevel::kGraph;
  options.plans = 1;
  options.budget_s = 120;  // for the slowest device; it ends with the first plan
  options.learner.model = "none";
  options.database = database_;
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GT(result->graph.points, 0);
  EXPECT_EQ(result->state, TuneState::kDone);
  EXPECT_GT(result->subjects[0].before_s, 0);
  EXPECT_LE(result->subjects[0].after_s, result->subjects[0].before_s);
}

TEST_P(OnDevice, TuningMakesAPlanForIt) {
  TuneOptions options;
  options.subjects = {{"matmul:M=32,N=32,K=32", true, {}}};
  options.target = target_;
  options.trials = 6;
  options.batch = 3;
  options.learner.first_fit = 3;
  options.learner.background = false;
  options.database = database_;
  std::vector<std::string> notes;
  TuneCallbacks callbacks;
  callbacks.note = [&](const std::string& line) { notes.push_back(line); };
  const Result<TuneResult> result = tune(options, callbacks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kDone);
  EXPECT_EQ(result->trials, 6);
  EXPECT_LE(result->tasks[0].after_s, result->tasks[0].before_s);
  EXPECT_EQ(result->plan.target, target::to_text(target_));
  EXPECT_TRUE(notes.empty()) << notes[0];
  for (const record::Record& r : records()) EXPECT_EQ(r.target, target::to_text(target_));
}

TEST_P(OnDevice, CollectingKeepsRecordsOfIt) {
  CollectOptions options;
  options.subjects = {{"matmul:M=32,N=32,K=32", true, {}}};
  options.target = target_;
  options.measure = measure::survey_options();
  options.per_task = 4;
  options.database = database_;
  const Result<CollectResult> done = collect(options, {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->records, 4);
  EXPECT_GT(done->valid, 0);
  EXPECT_EQ(records().size(), 4u);
}

}  // namespace
}  // namespace tessera::app
