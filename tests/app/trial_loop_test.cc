#include "tessera/app/tune/trial_loop.h"

#include <gtest/gtest.h>

#include "tests/app/fake_measurer.h"

namespace tessera::app {
namespace {

class Loop : public ::testing::Test {
 protected:
  void start(FakeMeasurer::Answer answer, int repeats) {
    loop_ = std::make_unique<TrialLoop>(
        std::make_unique<FakeMeasurer>(std::move(answer)), std::vector<LoopTask>{{"a"}, {"b"}},
        repeats, &records_,
        [this](const Attempt& a, const measure::Measurement& m, bool disturbed) {
          ended_.push_back({a.group, m.outcome, disturbed});
          return std::optional<std::int64_t>();
        });
  }
  void submit(std::size_t count, std::size_t task = 0) {
    std::vector<Attempt> attempts(count);
    for (std::size_t i = 0; i < count; ++i) {
      attempts[i].task = task;
      attempts[i].group = i;
    }
    loop_->submit(std::move(attempts));
  }
  void drain() {
    while (loop_->pending() > 0) loop_->collect(0);
  }

  struct Ended {
    std::uint64_t group;
    measure::Outcome outcome;
    bool disturbed;
  };
  TrialRecords records_ = TrialRecords::open({}, {}).value();  // nothing is kept
  std::unique_ptr<TrialLoop> loop_;
  std::vector<Ended> ended_;
};

TEST_F(Loop, EndsEveryAttemptOnce) {
  start(
      [](const measure::Trial& t, bool, measure::Measurement* m) {
        EXPECT_EQ(t.task, "b");
        m->samples_s = {1};
        m->build_ms = 500;
      },
      0);
  submit(3, 1);
  EXPECT_EQ(loop_->pending_of(1), 3u);
  EXPECT_EQ(loop_->pending_of(0), 0u);
  drain();
  ASSERT_EQ(ended_.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(ended_[i].group, i);
  EXPECT_EQ(loop_->times().build, 1.5);
  EXPECT_FALSE(loop_->trouble());
}

TEST_F(Loop, DisturbedTimesAreTakenAgainAFewTimes) {
  int calls = 0;
  start(
      [&](const measure::Trial&, bool, measure::Measurement* m) {
        ++calls;
        m->samples_s = {1};
        m->disturbed = true;
      },
      2);
  submit(1);
  drain();
  EXPECT_EQ(calls, 3);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_TRUE(ended_[0].disturbed);
  EXPECT_EQ(loop_->disturbed(), 3);
}

// The tenth walk over memory is slow, and the eleventh: task b lies in the cache of its core.
TEST_F(Loop, TimesBesideASlowWalkOverMemoryAreTakenAgain) {
  const auto answer = [](int* calls) {
    return [calls](const measure::Trial&, bool, measure::Measurement* m) {
      m->samples_s = {1};
      const int n = ++*calls;
      m->memory_s = n == 10 || n == 11 ? 2e-3 : 1e-3;
    };
  };
  for (const bool feels : {true, false}) {
    int calls = 0;
    ended_.clear();
    loop_ = std::make_unique<TrialLoop>(
        std::make_unique<FakeMeasurer>(answer(&calls)),
        std::vector<LoopTask>{{.key = "a", .feels_memory = feels}}, 3, &records_,
        [this](const Attempt& a, const measure::Measurement& m, bool disturbed) {
          ended_.push_back({a.group, m.outcome, disturbed});
          return std::optional<std::int64_t>();
        });
    submit(12);
    drain();
    EXPECT_EQ(ended_.size(), 12u);
    EXPECT_EQ(calls, feels ? 14 : 12);
    EXPECT_EQ(loop_->disturbed(), feels ? 2 : 0);
  }
}

// Agents of a fleet: the memory of the second takes twice as long, always.
TEST_F(Loop, EachMachineHasAWalkOfItsOwn) {
  std::uint64_t calls = 0;
  loop_ = std::make_unique<TrialLoop>(
      std::make_unique<FakeMeasurer>([&](const measure::Trial&, bool, measure::Measurement* m) {
        m->samples_s = {1};
        m->machine = 1 + static_cast<std::int64_t>(calls++ % 2);
        m->memory_s = m->machine == 1 ? 1e-3 : 2e-3;
      }),
      std::vector<LoopTask>{{.key = "a", .feels_memory = true}}, 3, &records_,
      [this](const Attempt& a, const measure::Measurement& m, bool disturbed) {
        ended_.push_back({a.group, m.outcome, disturbed});
        return std::optional<std::int64_t>();
      });
  submit(40);
  drain();
  EXPECT_EQ(ended_.size(), 40u);
  EXPECT_EQ(calls, 40u) << "none was taken again";
  for (int i = 0; i < 2; ++i) {
    const auto compared = loop_->compare(std::vector<Attempt>(1), [] { return false; });
    EXPECT_FALSE(compared.at(0).disturbed) << "machine " << compared.at(0).machine;
  }
  EXPECT_EQ(loop_->disturbed(), 0);
}

TEST_F(Loop, SaysWhyNothingCanBeMeasuredAnyMore) {
  bool lost = true;
  start(
      [&](const measure::Trial&, bool, measure::Measurement* m) {
        m->outcome = lost ? measure::Outcome::kWorkerLost : measure::Outcome::kOk;
        m->reason = "no device";
        m->samples_s = {1};
        m->disturbed = !lost;
      },
      0);
  submit(15);
  drain();
  EXPECT_FALSE(loop_->trouble());
  submit(1);
  drain();
  ASSERT_TRUE(loop_->trouble());
  EXPECT_STREQ(loop_->trouble()->what, "the loss of its workers");
  EXPECT_EQ(loop_->trouble()->reason, "workers keep going away: no device");
  lost = false;
  submit(256);
  drain();
  ASSERT_TRUE(loop_->trouble());
  EXPECT_STREQ(loop_->trouble()->what, "other work on the cores");
}

TEST_F(Loop, GivesUpWhatIsPending) {
  start([](const measure::Trial&, bool, measure::Measurement* m) { m->samples_s = {1}; }, 0);
  submit(4);
  loop_->give_up(/*wait=*/true);
  EXPECT_EQ(loop_->pending(), 0u);
  EXPECT_EQ(ended_.size(), 1u);
  submit(4);
  loop_->give_up(/*wait=*/false);
  EXPECT_EQ(ended_.size(), 1u);
}

}  // namespace
}  // namespace tessera::app
