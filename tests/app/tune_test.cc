// Tuning in the process, with workers that misbehave on purpose.
#include "tessera/app/tune/tune.h"

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "tessera/app/compile/plan_schedules.h"
#include "tessera/scheduling/space/space.h"
#include "tests/app/fake_measurer.h"
#include "tests/app/read_records.h"
#include "tests/model/stub_model.h"

namespace tessera::app {
namespace {

TuneOptions tiny() {
  TuneOptions o;
  o.subjects = {{"matmul:M=32,N=24,K=16", true, {}}};
  o.target = target::host();
  o.policy = "random";
  o.trials = 10;
  o.batch = 4;
  o.measure.trial_limit_s = 0.02;
  return o;
}

TEST(Tune, FindsNothingWorseThanTheDefault) {
  int progress = 0;
  TuneCallbacks callbacks;
  callbacks.progress = [&](const TuneProgress& p) {
    ++progress;
    EXPECT_EQ(p.tasks, 1u);
    // How long the end takes does not follow from the trials.
    EXPECT_TRUE(p.phase == TuneProgress::Phase::kSearch || p.remaining_s == 0);
  };
  const Result<TuneResult> result = tune(tiny(), callbacks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kDone);
  EXPECT_EQ(result->trials, 10);
  EXPECT_EQ(result->stopped_by, "trials");
  ASSERT_EQ(result->tasks.size(), 1u);
  EXPECT_TRUE(result->tasks[0].used);
  EXPECT_LE(result->tasks[0].after_s, result->tasks[0].before_s);
  EXPECT_EQ(result->plan.tasks.size(), 1u);
  EXPECT_NE(result->plan.find(result->tasks[0].key), nullptr);
  EXPECT_GT(progress, 0);
}

TEST(Tune, MakesSchedulesForItsThreadsAndThePlanForTheMachine) {
  TuneOptions options = tiny();
  options.target.cores = 7;
  options.measure.threads = 1;
  options.trials = 4;
  options.database = ::testing::TempDir() + "/tune_threads.db";
  std::filesystem::remove(options.database);
  // Trials that other processes disturb are not recorded.
  use_answers([](const measure::Trial&, bool, measure::Measurement* m) { m->samples_s = {1e-3}; },
              &options);
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->plan.target, target::to_text(options.target));
  EXPECT_EQ(result->plan.threads, 1);
  const target::Target one = target::code_target(options.target, 1);
  const auto problem = make_tune_problem(options.subjects, {});
  ASSERT_TRUE(problem.ok());
  const auto space = space::make_space(problem->tasks[0].task.dag, one);
  ASSERT_TRUE(space.ok());
  record::Filter filter;
  filter.targets = {target::to_text(one)};
  const std::vector<record::Record> records = read_records(options.database, filter);
  for (const record::Record& r : records) {
    EXPECT_TRUE(space->parse(r.candidate).ok()) << r.candidate;
  }
  EXPECT_GE(records.size(), 4u);
  EXPECT_EQ(read_records(options.database).size(), records.size()) << "none for another target";
  // The plan serves builds for the machine.
  EXPECT_TRUE(PlanSchedules::make(result->plan, options.target, true).ok());
  std::filesystem::remove(options.database);
}

// 64 and more points each; the second session goes on.
TEST(Tune, GivesEachTaskSoManyTrials) {
  TuneOptions options = tiny();
  options.subjects.push_back({"matmul:M=48,N=24,K=16", true, {}});
  options.trials = 0;
  options.trials_per_task = 7;
  options.database = ::testing::TempDir() + "/tune_per_task.db";
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(options.database + end);
  // The n-th schedule takes (100 - n) us, so that the last is the best.
  int calls = 0;
  std::map<std::pair<std::string, std::string>, double> seconds;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        const auto [at, is_new] = seconds.try_emplace({t.task, schedule::to_text(t.steps)}, 0);
        if (is_new) at->second = (100 - ++calls) * 1e-6;
        m->samples_s = {at->second};
      },
      &options);
  const auto first = tune(options, {});
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->stopped_by, "trials");
  EXPECT_EQ(first->trials, 14);
  for (const TaskReport& t : first->tasks) EXPECT_EQ(t.trials, 7);
  EXPECT_NEAR(first->sum_default_s, (99 + 98) * 1e-6, 1e-12);
  EXPECT_EQ(first->sum_session_s, first->sum_best_s);
  calls = -100;  // slower than before
  options.trials_per_task = 10;
  const auto second = tune(options, {});
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->earlier, 14);
  EXPECT_EQ(second->trials, 6);
  for (const TaskReport& t : second->tasks) {
    EXPECT_EQ(t.trials, 10);
    EXPECT_LT(t.best_s, 100e-6);
    EXPECT_GT(t.session_best_s, 100e-6);
  }
  EXPECT_EQ(second->sum_best_s, first->sum_best_s);
  EXPECT_GT(second->sum_session_s, 2 * 100e-6);
  std::filesystem::remove(options.database);
}

// Cannot judge anything.
class Broken final : public model::testing::StubModel {
 public:
  std::vector<float> predict(const feature::FeatureSet& set) const override {
    return std::vector<float>(set.candidates(), std::numeric_limits<float>::quiet_NaN());
  }
  std::string last_error() const override { return "does not build"; }
};

TEST(Tune, NotesOnceThatTheModelCannotJudge) {
  TuneOptions options = tiny();
  options.policy = "evolutionary";
  options.learner.model = "random";
  options.learner.global = std::make_shared<Broken>();
  int notes = 0;
  TuneCallbacks callbacks;
  callbacks.note = [&](const std::string& text) {
    if (text.find("does not build") != std::string::npos) ++notes;
  };
  const Result<TuneResult> result = tune(options, callbacks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->trials, 10);
  EXPECT_EQ(notes, 1);
}

TEST(Tune, SaysWhenNoTrialGaveATime) {
  TuneOptions options = tiny();
  options.trials = 3;
  options.measure.hooks.before_build = [](const measure::Trial&) { std::_Exit(3); };
  const Result<TuneResult> result = tune(options, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kNoMeasurement);
  EXPECT_TRUE(result->plan.tasks.empty());
}

TEST(Tune, AnInterruptKeepsTheTrialThatIsRunning) {
  TuneOptions options = tiny();
  options.trials = 100;
  bool stop = false;
  int calls = 0;
  use_answers(
      [&](const measure::Trial&, bool side_by_side, measure::Measurement* m) {
        if (!side_by_side) stop = ++calls >= 3;
        m->samples_s = {1e-3};
      },
      &options);
  TuneCallbacks callbacks;
  callbacks.interrupted = [&] { return stop; };
  const Result<TuneResult> result = tune(options, callbacks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kInterrupted);
  EXPECT_EQ(result->stopped_by, "an interrupt");
  EXPECT_EQ(result->trials, 4) << "three before it, and the one that had begun";
  EXPECT_EQ(calls, 4);
}

TEST(Tune, AnInterruptBeforeTheFirstTrialLeavesNoPlan) {
  TuneCallbacks callbacks;
  callbacks.interrupted = [] { return true; };
  const Result<TuneResult> result = tune(tiny(), callbacks);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kInterrupted);
}

}  // namespace
}  // namespace tessera::app
