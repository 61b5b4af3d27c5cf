// Samples that are measured where they were drawn: what is kept, what is not measured twice.
#include "tessera/app/collect/dataset_measure.h"

#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "tessera/app/collect/dataset_sample.h"
#include "tests/app/read_records.h"

namespace tessera::app {
namespace {

class MeasureSample : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    options_.folder = ::testing::TempDir() + "/measure_sample_" + test->name();
    options_.database = options_.folder + ".db";
    std::filesystem::remove_all(options_.folder);
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(options_.database + end);
    options_.target = target::host();
    options_.measure.trial_limit_s = 0.01;
    options_.measure.max_samples = 3;
  }

  void draw(const target::Target& target) {
    SampleOptions sample;
    sample.folder = options_.folder;
    sample.scope.subjects = {{"matmul:M=32,N=24,K=16", true, {}}, {"softmax:R=8,C=64", true, {}}};
    sample.scope.target = target;
    sample.scope.shards = 2;
    sample.per_task = 5;
    drawn_ = sample_dataset(sample, {}).value().candidates;
  }

  // Of the last session.
  std::string state() const {
    return record::Database::open_read_only(options_.database)->sessions()->back().state;
  }

  MeasureSampleOptions options_;
  std::int64_t drawn_ = 0;
};

TEST_F(MeasureSample, KeepsEveryCandidateOnce) {
  draw(target::host());
  const MeasureSampleResult first = measure_sample(options_, {}).value();
  EXPECT_EQ(first.tasks, 2u);
  EXPECT_EQ(first.records, drawn_);
  EXPECT_EQ(first.stopped_by, "done");
  std::set<std::string> schedules;
  for (const record::Record& r : read_records(options_.database)) {
    schedules.insert(r.task + r.schedule);
    EXPECT_GT(r.samples_s.size(), 1u) << r.reason;
  }
  EXPECT_EQ(std::ssize(schedules), drawn_);
  const MeasureSampleResult second = measure_sample(options_, {}).value();
  EXPECT_EQ(second.records, 0);
  EXPECT_EQ(second.earlier, drawn_);
}

TEST_F(MeasureSample, OfAnotherMachineIsRefused) {
  target::Target other = target::host();
  other.l2_bytes *= 2;
  draw(other);
  const Result<MeasureSampleResult> refused = measure_sample(options_, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  options_.any_machine = true;
  EXPECT_EQ(measure_sample(options_, {}).value().records, drawn_);
}

TEST_F(MeasureSample, EndsWhenAsked) {
  draw(target::host());
  const MeasureSampleResult done =
      measure_sample(options_, [](const MeasureSampleProgress&) { return false; }).value();
  EXPECT_EQ(done.stopped_by, "an interrupt");
  EXPECT_EQ(state(), "interrupted");
  const MeasureSampleResult rest = measure_sample(options_, {}).value();
  EXPECT_EQ(rest.stopped_by, "done");
  EXPECT_EQ(rest.records + rest.earlier, drawn_);
  EXPECT_LE(rest.earlier, done.records);
  EXPECT_EQ(state(), "done");
}

TEST_F(MeasureSample, SessionsSayThatTheirTimeWasUp) {
  draw(target::host());
  options_.budget_s = 1e-6;
  EXPECT_EQ(measure_sample(options_, {})->stopped_by, "budget");
  EXPECT_EQ(state(), "budget");
}

}  // namespace
}  // namespace tessera::app
