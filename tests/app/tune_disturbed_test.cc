// Times that were shared with other work: what a tuning makes of them.
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "tessera/app/tune/tune.h"
#include "tests/app/fake_measurer.h"
#include "tests/app/read_records.h"

namespace tessera::app {
namespace {

constexpr double kDefault = 1e-3;

class Disturbed : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    options_.subjects = {{"matmul:M=32,N=24,K=16", true, {}}};
    options_.target = target::host();
    options_.policy = "random";
    options_.trials = 12;
    options_.batch = 4;
    options_.database = ::testing::TempDir() + "/disturbed_" + test->name() + ".db";
    for (const char* end : {"", "-wal", "-shm"}) {
      std::filesystem::remove(options_.database + end);
    }
  }

  std::vector<record::Record> records() const { return read_records(options_.database); }

  TuneOptions options_;
};

// Every schedule is disturbed the first time, and then seems fast.
TEST_F(Disturbed, AreMeasuredAgain) {
  std::map<std::string, int> seen;
  use_answers(
      [&](const measure::Trial& t, bool side_by_side, measure::Measurement* m) {
        m->disturbed = !side_by_side && seen[schedule::to_text(t.steps)]++ == 0;
        m->samples_s = {m->disturbed ? kDefault / 10 : kDefault};
      },
      &options_);
  const Result<TuneResult> result = tune(options_, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->trials, 12);
  EXPECT_EQ(result->disturbed, 12);
  EXPECT_EQ(result->tasks[0].trials, 12);
  for (const auto& [schedule, times] : seen) EXPECT_EQ(times, 2);
  ASSERT_GE(records().size(), 12u);
  for (const record::Record& r : records()) EXPECT_EQ(r.seconds, kDefault);
  EXPECT_EQ(result->tasks[0].after_s, kDefault);
}

// All but the default, always.
TEST_F(Disturbed, AreGivenUpAfterSomeRepeats) {
  std::string preferred;
  std::map<std::string, int> seen;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        if (preferred.empty()) preferred = schedule::to_text(t.steps);
        ++seen[schedule::to_text(t.steps)];
        m->disturbed = schedule::to_text(t.steps) != preferred;
        m->samples_s = {m->disturbed ? kDefault / 10 : kDefault};
      },
      &options_);
  const Result<TuneResult> result = tune(options_, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->trials, 12);
  EXPECT_EQ(seen[preferred], 1);
  for (const auto& [schedule, times] : seen) {
    if (schedule != preferred) {
      EXPECT_EQ(times, 4);
    }
  }
  EXPECT_EQ(result->disturbed, 44);
  EXPECT_EQ(records().size(), 1u);
  EXPECT_EQ(result->tasks[0].after_s, kDefault) << "none became the incumbent";
}

TEST_F(Disturbed, CountAgainstTheTrialsOfTheirTaskWhenGivenUp) {
  options_.trials = 0;
  options_.trials_per_task = 6;
  std::string preferred;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        if (preferred.empty()) preferred = schedule::to_text(t.steps);
        m->disturbed = schedule::to_text(t.steps) != preferred;
        m->samples_s = {kDefault};
      },
      &options_);
  const Result<TuneResult> result = tune(options_, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->trials, 6);
  EXPECT_EQ(result->stopped_by, "trials");
}

TEST_F(Disturbed, LeaveTheDefaultWhenNothingElseIsKnown) {
  use_answers(
      [&](const measure::Trial&, bool, measure::Measurement* m) {
        m->disturbed = true;
        m->samples_s = {kDefault};
      },
      &options_);
  options_.trials = 0;
  options_.batch = 32;
  const Result<TuneResult> result = tune(options_, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kDone);
  EXPECT_EQ(result->stopped_by, "other work on the cores");
  EXPECT_EQ(result->tasks[0].before_s, kDefault);
  EXPECT_TRUE(records().empty());
  EXPECT_EQ(result->plan.tasks.size(), 1u);
}

// At the end a disturbed time is too long, never a reason to prefer another candidate.
TEST_F(Disturbed, DoNotDecideTheFinals) {
  std::string preferred;
  use_answers(
      [&](const measure::Trial& t, bool side_by_side, measure::Measurement* m) {
        if (preferred.empty()) preferred = schedule::to_text(t.steps);
        const bool is_default = schedule::to_text(t.steps) == preferred;
        m->disturbed = side_by_side && is_default;
        m->samples_s = {m->disturbed ? 2 * kDefault : is_default ? kDefault : 1.05 * kDefault};
      },
      &options_);
  const Result<TuneResult> result = tune(options_, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->tasks[0].before_s, kDefault);
  EXPECT_EQ(result->tasks[0].after_s, kDefault);
  EXPECT_EQ(result->disturbed, 2) << "compared twice";
  for (const record::Record& r : records()) EXPECT_LT(r.seconds, 1.5 * kDefault);
}

}  // namespace
}  // namespace tessera::app
