// Budgets with many tasks and many records. The clock is the tests' own, so that nothing here
// depends on how fast the machine is.
#include <filesystem>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "tessera/app/tune/replay_order.h"
#include "tessera/app/tune/tune.h"
#include "tessera/app/tune/tune_costs.h"
#include "tessera/trials/record/database.h"
#include "tests/app/fake_measurer.h"
#include "tests/app/read_records.h"
#include "tests/model/stub_model.h"

namespace tessera::app {
namespace {

class Budget : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    options_.target = target::host();
    options_.policy = "random";
    options_.learner.model = "none";
    options_.measure.threads = 1;
    options_.elapsed_s = [this] { return now_s_; };
    options_.database = ::testing::TempDir() + "/budget_" + test->name() + ".db";
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(options_.database + end);
    callbacks_.note = [this](const std::string& line) { notes_ += line + "\n"; };
  }
  void TearDown() override {
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(options_.database + end);
  }

  void add_products(int count) {
    for (int i = 0; i < count; ++i) {
      options_.subjects.push_back({fmt::format("matmul:M={},N=8,K=8", 8 + i), true, {}});
    }
  }
  // Each trial, alone or beside others, takes so long.
  void measure_in(double trial_s) {
    use_answers(
        [this, trial_s](const measure::Trial& t, bool, measure::Measurement* m) {
          now_s_ += trial_s;
          tasks_.insert(t.task);
          m->samples_s = {1e-3};
        },
        &options_);
  }

  double now_s_ = 0;
  std::set<std::string> tasks_;  // that were measured
  std::string notes_;
  TuneOptions options_;
  TuneCallbacks callbacks_;
};

TEST_F(Budget, HoldsWithMoreTasksThanItHasTimeFor) {
  add_products(60);
  measure_in(0.5);
  options_.budget_s = 10;
  const Result<TuneResult> result = tune(options_, callbacks_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->state, TuneState::kDone);
  EXPECT_EQ(result->stopped_by, "budget");
  EXPECT_LE(now_s_, 11);
  EXPECT_GE(result->trials, 12);
  std::size_t reached = 0;
  for (const TaskReport& t : result->tasks) {
    reached += t.reached ? 1 : 0;
    if (!t.reached) {
      EXPECT_EQ(t.trials, 0);
      EXPECT_EQ(t.after_s, 0);
      EXPECT_FALSE(tasks_.contains(t.key));
    }
  }
  // No space is made for a task whose turn does not come.
  EXPECT_LE(reached, tasks_.size() + 16);
  EXPECT_LT(reached, 60u);
  EXPECT_EQ(result->plan.tasks.size(), reached) << "the others keep their defaults";
  EXPECT_NE(notes_.find("the budget did not reach"), std::string::npos) << notes_;
}

TEST_F(Budget, LeavesOutAlgorithmsThatItHasNoTimeToLookAt) {
  options_.subjects = {{"zoo:lenet", false, {}}};
  measure_in(0);
  options_.budget_s = 10;
  options_.trials_per_task = 1;
  now_s_ = 5;  // reading the model took so long
  const Result<TuneResult> result = tune(options_, callbacks_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GT(result->trials, 0);
  for (const TaskReport& t : result->tasks) EXPECT_EQ(t.algorithm, "") << t.name;
  EXPECT_NE(notes_.find("no time to look for kernels of: direct, winograd2"), std::string::npos)
      << notes_;
}

TEST_F(Budget, NothingIsKeptForAWholeModelThatTakesTooLong) {
  options_.subjects = {{"zoo:lenet", false, {}}};
  use_answers(
      [this](const measure::Trial&, bool, measure::Measurement* m) {
        now_s_ += 0.25;
        m->samples_s = {1.0};  // timing the model would take minutes
      },
      &options_);
  options_.budget_s = 20;
  const Result<TuneResult> result = tune(options_, callbacks_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->stopped_by, "budget");
  EXPECT_GE(now_s_, 16) << "half of the budget was kept for it";
  EXPECT_LE(now_s_, 21);
  EXPECT_NE(notes_.find("no time to check and time the whole model"), std::string::npos) << notes_;
}

TEST_F(Budget, HeavyTasksComeFirst) {
  options_.subjects = {{"matmul:M=8,N=8,K=8", true, {}}, {"matmul:M=64,N=64,K=64", true, {}}};
  std::vector<std::string> order;
  use_answers(
      [&](const measure::Trial& t, bool, measure::Measurement* m) {
        order.push_back(t.task);
        m->samples_s = {1e-3};
      },
      &options_);
  options_.trials_per_task = 1;
  const Result<TuneResult> result = tune(options_, callbacks_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const auto problem = make_tune_problem(options_.subjects, {});
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(heaviest_first(*problem), (std::vector<std::size_t>{1, 0}));
  ASSERT_EQ(order.size(), 2u);
  EXPECT_EQ(order[0], problem->tasks[1].task.key);
}

TEST_F(Budget, DefaultsThatItDoesNotHoldAreMeasuredWhenTheirRoundComes) {
  add_products(40);
  measure_in(0.5);
  options_.budget_s = 40;
  options_.batch = 1;
  const Result<TuneResult> result = tune(options_, callbacks_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_LE(now_s_, 44);
  std::size_t rounds = 0;
  for (const TaskReport& t : result->tasks) {
    EXPECT_TRUE(t.reached);
    EXPECT_GE(t.trials, 1);
    rounds += t.trials > 1 ? 1 : 0;
  }
  EXPECT_GT(rounds, 0u) << "rounds begin before the last default";
}

// Counts how often it is asked.
class Asked final : public model::testing::StubModel {
 public:
  std::vector<float> predict(const feature::FeatureSet& set) const override {
    ++calls;
    return std::vector<float>(set.candidates(), 0);
  }
  mutable std::size_t calls = 0;
};

// Writes that many records of the task by tuning it with candidates that cost nothing.
void record_trials(TuneOptions options, std::int64_t trials) {
  options.elapsed_s = nullptr;
  options.budget_s = 0;
  options.trials = trials;
  options.batch = 256;
  options.learner.model = "none";
  options.learner.global = nullptr;
  options.policy = "random";
  options.record_space = true;  // goes on without any gain
  int n = 0;
  use_answers([&](const measure::Trial&, bool,
                  measure::Measurement* m) { m->samples_s = {1e-3 + 1e-9 * (++n)}; },
              &options);
  const Result<TuneResult> made = tune(options, {});
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->trials, trials);
}

TEST_F(Budget, RecordsAreReplayedInBatches) {
  options_.subjects = {{"matmul:M=128,N=96,K=64", true, {}}};
  record_trials(options_, 1500);
  measure_in(0);
  const auto global = std::make_shared<Asked>();
  options_.policy = "evolutionary";
  options_.learner.model = "random";
  options_.learner.features = "decisions";
  options_.learner.background = false;
  options_.learner.first_fit = 100'000;
  options_.learner.global = global;
  options_.trials = 1500;  // all of them are known
  const Result<TuneResult> result = tune(options_, callbacks_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->earlier, 1500);
  EXPECT_EQ(result->left_aside, 0);
  EXPECT_EQ(result->trials, 0);
  EXPECT_LE(global->calls, 16u) << "not once a record";
}

TEST_F(Budget, RecordsThatItHasNoTimeForAreCountedAndNamed) {
  options_.subjects = {{"matmul:M=128,N=96,K=64", true, {}}};
  record_trials(options_, 1500);
  measure_in(0.1);
  options_.budget_s = 10;
  // Every look at the clock costs: reading and learning take longer than their share.
  options_.elapsed_s = [this] { return now_s_ += 0.3; };
  const Result<TuneResult> result = tune(options_, callbacks_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_GT(result->left_aside, 0);
  EXPECT_LE(result->earlier, 1500);
  EXPECT_GT(result->earlier, result->left_aside) << "the fastest and newest are taken over";
  EXPECT_EQ(result->tasks[0].earlier, result->earlier);
  EXPECT_NEAR(result->tasks[0].best_s, 1e-3, 1e-8) << "the fastest is among them";
  EXPECT_NE(notes_.find("no time to learn from"), std::string::npos) << notes_;
}

TEST_F(Budget, APlanOfRecordsThatWereNotTimedNowSaysSo) {
  options_.subjects = {{"matmul:M=32,N=24,K=16", true, {}}};
  // The second of a session is the fastest.
  int calls = 0;
  use_answers([&](const measure::Trial&, bool,
                  measure::Measurement* m) { m->samples_s = {++calls == 2 ? 1e-6 : 1e-3}; },
              &options_);
  options_.trials = 8;
  ASSERT_TRUE(tune(options_, callbacks_).ok());
  EXPECT_EQ(notes_.find("not timed now"), std::string::npos);
  // The budget ends with the first trial.
  use_answers(
      [&](const measure::Trial&, bool, measure::Measurement* m) {
        m->samples_s = {1e-3};
        now_s_ = 100;
      },
      &options_);
  options_.trials = 0;
  options_.budget_s = 10;
  const Result<TuneResult> result = tune(options_, callbacks_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_EQ(result->plan.tasks.size(), 1u);
  const plan::PlanEntry& entry = result->plan.tasks.begin()->second;
  EXPECT_TRUE(entry.earlier);
  EXPECT_FALSE(result->tasks[0].now);
  EXPECT_FALSE(result->subjects[0].now);
  EXPECT_NE(notes_.find("1 of 1 schedules of the plan were not timed now"), std::string::npos)
      << notes_;
}

TEST_F(Budget, ASpaceThatCannotBeMadeIsAnError) {
  options_.subjects = {{"matmul:M=32,N=24,K=16", true, {}}};
  options_.sources = {"nonsense"};
  measure_in(0);
  const Result<TuneResult> result = tune(options_, callbacks_);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("nonsense"), std::string::npos) << result.error().message;
}

TEST(ReplayOrder, TheFastestAndNewestComeFirst) {
  std::vector<double> seconds(100, 0);
  for (std::size_t i = 0; i < 100; ++i) seconds[i] = 100 - static_cast<double>(i % 50);
  seconds[7] = 0;  // failed
  const auto batches = replay_order(seconds, 20);
  std::vector<std::size_t> all;
  for (const auto& b : batches) {
    EXPECT_LE(b.size(), 20u);
    EXPECT_TRUE(std::is_sorted(b.begin(), b.end()));
    all.insert(all.end(), b.begin(), b.end());
  }
  std::vector<std::size_t> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::size_t> every(100);
  std::iota(every.begin(), every.end(), 0);
  EXPECT_EQ(sorted, every) << "each once";
  // 45 to 49 and 95 to 99 are the fastest, 85 to 94 the newest of the rest.
  EXPECT_EQ(batches.front(), (std::vector<std::size_t>{45, 46, 47, 48, 49, 85, 86, 87, 88, 89,
                                                       90, 91, 92, 93, 94, 95, 96, 97, 98, 99}));
  EXPECT_EQ(batches.back().front(), 0u);
  EXPECT_TRUE(replay_order({}, 20).empty());
  EXPECT_EQ(replay_order({1, 0, 2}, 20), (std::vector<std::vector<std::size_t>>{{0, 1, 2}}));
}

TEST(KnownSums, CountWhatHasTimesOnly) {
  TuneProblem p;
  p.tasks.resize(5);
  p.base = {{0, 0, 2}, {1, 0, 1}};
  p.points.push_back({.point = {.name = "c", .values = {{0}, {1}}, .labels = {"a", "b"}},
                      .uses = {{{2, 0, 1}}, {{3, 0, 1}}}});
  KnownSums s = known_sums(p, {1, 0, 4, 3, 0}, {0.5, 0, 4, 2, 0});
  EXPECT_EQ(s.before_s, 2 + 4);
  EXPECT_EQ(s.after_s, 1 + 2);
  // The default of the preferred value failed: the other one stands for it.
  s = known_sums(p, {1, 0, 0, 3, 0}, {0.5, 0, 0, 2, 0});
  EXPECT_EQ(s.before_s, 2 + 3);
  EXPECT_EQ(s.after_s, 1 + 2);
  s = known_sums(p, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0});
  EXPECT_EQ(s.before_s, 0);
  EXPECT_EQ(s.after_s, 0);
}

}  // namespace
}  // namespace tessera::app
