// Candidates in the places of a running model: planted ones among thirty are found, each of them.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tessera/frontend/graph/builder.h"
#include "tessera/support/clock.h"
#include "tessera/trials/measure/messages.h"
#include "tessera/trials/measure/model_copies.h"
#include "tessera/trials/measure/model_stand.h"
#include "tests/measure/workers.h"

namespace tessera::measure {
namespace {

constexpr std::size_t kTasks = 30;
constexpr std::int64_t kRows = 4, kFirst = 8;

// Thirty products in a row, none of the same size, and the last one twice.
graph::Graph chain() {
  graph::GraphBuilder b("chain");
  Rng rng(1);
  graph::ValueId x = b.input("x", {DType::kF32, {kRows, kFirst}});
  const auto multiply = [&](std::int64_t from, std::int64_t to) {
    const graph::ValueId w = b.constant(random_tensor(DType::kF32, {from, to}, rng));
    x = b.add("contract", {x, w}, {{"a", "mk"}, {"b", "kn"}, {"out", "mn"}}).value();
  };
  for (std::int64_t i = 0; i + 1 < static_cast<std::int64_t>(kTasks); ++i)
    multiply(kFirst + i, kFirst + i + 1);
  const std::int64_t last = kFirst + static_cast<std::int64_t>(kTasks) - 1;
  multiply(last, last);
  multiply(last, last);
  return b.finish({x}, {"y"});
}

using Call =
    std::function<void(const Trial&, const std::function<void()>&, std::span<void* const>)>;

class InPlace : public ::testing::Test {
 protected:
  void start_model(MeasureOptions options = {}, const graph::Graph& graph = chain()) {
    const task::TaskGraph tasks = task::extract_tasks(graph).value();
    ASSERT_EQ(tasks.tasks.size(), kTasks);
    const target::Target target = target::code_target(target::host(), 1);
    std::vector<std::string> keys;
    std::vector<MeasuredTask> measured;
    for (const task::Task& t : tasks.tasks) {
      keys.push_back(t.key);
      measured.push_back({t.key, t.dag});
    }
    Rng rng(2);
    auto placed = place_model(graph, tasks, keys,
                              {random_tensor(DType::kF32, {kRows, kFirst}, rng)}, target, {});
    ASSERT_TRUE(placed.ok()) << placed.error().message;
    placed_ = *placed;
    options.in_place = in_place_stand(*placed);
    options.reference_schedule = reasoned;
    options.min_samples = 2;
    options.max_samples = max_samples_;
    options.loser_factor = loser_factor_;
    for (std::size_t t = 0; t < kTasks; ++t) {
      trials_.push_back(
          {.id = t, .task = keys[t], .steps = default_steps(tasks.tasks[t].dag), .in_place = true});
    }
    auto measurer = start_local_measurer(measured, target, options);
    ASSERT_TRUE(measurer.ok()) << measurer.error().message;
    measurer_ = std::move(measurer).value();
  }

  // One candidate of every task at once; `fault` in place of the calls of one of them.
  std::vector<Measurement> measure_with(std::uint64_t planted, const Call& fault,
                                        MeasureOptions options = {}) {
    options.hooks.call = [planted, fault](const Trial& trial, const std::function<void()>& call,
                                          std::span<void* const> params) {
      if (trial.id == planted) {
        fault(trial, call, params);
      } else {
        call();
      }
    };
    start_model(std::move(options));
    if (!measurer_) return {};
    measurer_->submit_together(trials_);
    std::vector<Measurement> all = collect_all(*measurer_);
    EXPECT_EQ(all.size(), kTasks);
    all.resize(kTasks);
    return all;
  }

  // All others are timed.
  static void expect_blamed(const std::vector<Measurement>& all, std::uint64_t planted,
                            Outcome outcome) {
    for (const Measurement& m : all) {
      EXPECT_EQ(m.outcome, m.id == planted ? outcome : Outcome::kOk) << m.id << ": " << m.reason;
      EXPECT_EQ(m.samples_s.empty(), m.id == planted) << m.id;
      EXPECT_EQ(m.default_s > 0, m.id != planted) << m.id;
    }
  }

  int max_samples_ = 2;
  double loser_factor_ = 1e6;  // other work slows any candidate
  std::vector<Trial> trials_;
  std::shared_ptr<const PlacedModel> placed_;
  std::unique_ptr<Measurer> measurer_;
};

std::size_t output_elements(std::uint64_t trial) {
  const auto last = static_cast<std::uint64_t>(kTasks - 1);
  return static_cast<std::size_t>(kRows) *
         (static_cast<std::size_t>(kFirst) + std::min(trial + 1, last));
}

TEST_F(InPlace, OneRunTimesACandidateOfEveryTask) {
  start_model();
  measurer_->submit_together(trials_);
  for (const Measurement& m : collect_all(*measurer_)) {
    EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
    EXPECT_GE(m.samples_s.size(), 2u);
    EXPECT_GT(m.default_s, 0);
  }
  // Other schedules pack the constants in other ways.
  for (Trial& t : trials_) t.steps = {};
  measurer_->submit_together(trials_);
  for (const Measurement& m : collect_all(*measurer_))
    EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
}

// Nothing asks for names of constants that differ.
TEST_F(InPlace, ConstantsOfOneNameAreNotMistaken) {
  graph::Graph graph = chain();
  for (graph::Value& v : graph.values) {
    if (v.is_constant) v.name = "w";
  }
  start_model({}, graph);
  for (Trial& t : trials_) t.steps = {};  // the constants as they are, which the model packs
  measurer_->submit_together(trials_);
  for (const Measurement& m : collect_all(*measurer_))
    EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
}

// By a clock that goes on by one with every look at it: the seconds of a kernel are exact.
TEST_F(InPlace, ACandidateThatIsSlowerByAFifthShows) {
  void* page =
      mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* seconds = static_cast<double*>(page);
  MeasureOptions options;
  options.hooks.clock = [seconds] { return *seconds += 1; };
  for (const std::uint64_t planted : {0u, 17u, 29u}) {
    trials_.clear();
    const auto all = measure_with(
        planted,
        [seconds](auto&&, const auto& call, auto&&) {
          call();
          *seconds += 0.2;
        },
        options);
    for (const Measurement& m : all) {
      EXPECT_NEAR(m.seconds() / m.default_s, m.id == planted ? 1.2 : 1.0, 1e-9) << m.id;
      EXPECT_EQ(m.outcome, Outcome::kOk);
    }
  }
  munmap(page, sizeof(double));
}

TEST_F(InPlace, OneThatIsWrongByAHundredthIsBlamed) {
  for (const std::uint64_t planted : {0u, 12u, 29u}) {
    trials_.clear();
    const auto all =
        measure_with(planted, [](const Trial& t, const auto& call, std::span<void* const> params) {
          call();
          auto* out = static_cast<float*>(params.back());
          auto* largest = std::max_element(out, out + output_elements(t.id), [](float a, float b) {
            return std::abs(a) < std::abs(b);
          });
          *largest *= 1.01F;
        });
    expect_blamed(all, planted, Outcome::kWrongResult);
  }
}

TEST_F(InPlace, OneThatTurnsWrongInTimedRunsIsBlamed) {
  const auto all =
      measure_with(7, [n = 0](auto&&, const auto& call, std::span<void* const> params) mutable {
        call();
        if (++n > 3) *static_cast<float*>(params.back()) += 1e3F;
      });
  expect_blamed(all, 7, Outcome::kWrongResult);
}

TEST_F(InPlace, OneThatWritesPastItsEndIsBlamed) {
  for (const std::size_t beyond : {0u, 4096u}) {
    trials_.clear();
    const auto all =
        measure_with(11, [beyond](const Trial& t, const auto& call, std::span<void* const> params) {
          call();
          static_cast<volatile float*>(params.back())[output_elements(t.id) + beyond] = 1;
        });
    expect_blamed(all, 11, Outcome::kOutOfBounds);
  }
}

// After it was checked, so that no guard is near: weights of the model change.
TEST_F(InPlace, OneThatChangesTheModelIsFoundByHalves) {
  const auto all =
      measure_with(23, [n = 0](auto&&, const auto& call, std::span<void* const> params) mutable {
        call();
        if (++n == 2) *static_cast<float*>(params[1]) += 1;
      });
  expect_blamed(all, 23, Outcome::kOutOfBounds);
  EXPECT_NE(all[23].reason.find("not its own"), std::string::npos) << all[23].reason;
}

TEST_F(InPlace, OneThatCrashesIsBlamedWheneverItDoes) {
  for (const int call_number : {1, 2}) {  // checked; timed
    trials_.clear();
    const auto all =
        measure_with(19, [n = 0, call_number](auto&&, const auto& call, auto&&) mutable {
          if (++n == call_number) raise(SIGILL);
          call();
        });
    expect_blamed(all, 19, Outcome::kRunError);
    EXPECT_EQ(all[19].reason, "SIGILL");
  }
}

[[noreturn]] void spin() {
  volatile int turns = 0;
  for (;;) turns = 1 - turns;
}

TEST_F(InPlace, OneThatHangsIsBlamedWheneverItDoes) {
  for (const int call_number : {1, 2}) {
    trials_.clear();
    const auto all = measure_with(5,
                                  [n = 0, call_number](auto&&, const auto& call, auto&&) mutable {
                                    if (++n == call_number) spin();
                                    call();
                                  },
                                  {.run_timeout_s = 2});
    expect_blamed(all, 5, Outcome::kRunTimeout);
  }
}

// Heap that one of them damaged may end another: who does not fail alone is measured again.
TEST_F(InPlace, OneThatFailsBesideOthersOnlyIsNotLost) {
  void* page =
      mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* crashed = static_cast<int*>(page);
  const auto all = measure_with(3, [crashed](auto&&, const auto& call, auto&&) {
    if ((*crashed)++ == 0) raise(SIGSEGV);
    call();
  });
  for (const Measurement& m : all) EXPECT_EQ(m.outcome, Outcome::kOk) << m.id << ": " << m.reason;
  munmap(page, sizeof(int));
}

TEST_F(InPlace, WithoutAModelNothingRuns) {
  const te::Dag dag = dag_of("matmul:M=8,N=8,K=8");
  const auto measurer = start({dag}, {});
  Trial trial{.id = 1, .steps = default_steps(dag), .in_place = true};
  const Measurement m = measure_one(*measurer, trial);
  EXPECT_EQ(m.outcome, Outcome::kWorkerLost);
  EXPECT_NE(m.reason.find("no model"), std::string::npos) << m.reason;
}

TEST_F(InPlace, CandidatesOfATaskTakeTurns) {
  start_model();
  for (std::uint64_t i = 0; i < 3; ++i) {
    trials_.push_back(trials_[i % 2]);
    trials_.back().id = kTasks + i;
  }
  measurer_->submit_together(trials_);
  const auto all = collect_all(*measurer_);
  ASSERT_EQ(all.size(), kTasks + 3);
  for (const Measurement& m : all) {
    EXPECT_EQ(m.outcome, Outcome::kOk) << m.id << ": " << m.reason;
    EXPECT_GE(m.samples_s.size(), 2u);
    EXPECT_GT(m.default_s, 0);
  }
}

// By a clock that tells the seconds of a kernel exactly: one that takes several times as long as
// the model's own kernel has fewer samples than the others, and one that is final has as many.
TEST_F(InPlace, ClearLosersAreGivenUpEarly) {
  void* page =
      mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* seconds = static_cast<double*>(page);
  MeasureOptions options;
  options.hooks.clock = [seconds] { return *seconds += 1; };
  options.hooks.call = [seconds](const Trial& trial, const auto& call, auto&&) {
    call();
    if (trial.id == 7 || trial.id == 9) *seconds += 4;
  };
  max_samples_ = 8;
  loser_factor_ = MeasureOptions{}.loser_factor;
  start_model(options);
  trials_[9].final = true;
  measurer_->submit_together(trials_);
  std::map<std::uint64_t, Measurement> all;
  for (Measurement& m : collect_all(*measurer_)) all[m.id] = m;
  ASSERT_EQ(all.size(), kTasks);
  EXPECT_EQ(all[7].outcome, Outcome::kCensored);
  EXPECT_NEAR(all[7].seconds(), 5, 1e-9);
  EXPECT_EQ(all[9].outcome, Outcome::kOk);
  EXPECT_NEAR(all[9].seconds() / all[9].default_s, 5, 1e-9);
  EXPECT_GT(all[8].samples_s.size(), all[7].samples_s.size());
  munmap(page, sizeof(double));
}

TEST_F(InPlace, CopiesOfTheModelRunBesideIt) {
  start_model();
  ASSERT_TRUE(placed_);
  const auto copies = ModelCopies::start(placed_, 2, 1);
  ASSERT_TRUE(copies.ok()) << copies.error().message;
  measurer_->submit_together(trials_);
  for (const Measurement& m : collect_all(*measurer_))
    EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
  const std::int64_t before = (*copies)->runs();
  const Clock::time_point start = Clock::now();
  while ((*copies)->runs() == before && seconds_since(start) < 20) usleep(1000);
  EXPECT_GT((*copies)->runs(), before);
  EXPECT_EQ((*copies)->ended(), 0);
  EXPECT_EQ(ModelCopies::start(placed_, 1000, 1).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(InPlace, CopiesThatCannotRunAreCounted) {
  start_model();
  ASSERT_TRUE(placed_);
  const graph::Graph graph = chain();
  const auto wrong = place_model(graph, task::extract_tasks(graph).value(), {},
                                 {HostTensor(DType::kF32, {kRows, kFirst + 1})},
                                 target::code_target(target::host(), 1), {});
  ASSERT_TRUE(wrong.ok()) << wrong.error().message;
  const auto copies = ModelCopies::start(*wrong, 2, 1);
  ASSERT_TRUE(copies.ok()) << copies.error().message;
  EXPECT_TRUE(eventually([&] { return (*copies)->ended() == 2; }));
  EXPECT_EQ((*copies)->runs(), 0);
}

// The next batch does not wait for the runs of one that was given up before all of it was built.
TEST_F(InPlace, WhatIsGivenUpWhileItIsBuiltDoesNotRun) {
  void* page =
      mmap(nullptr, 2 * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* building = static_cast<std::atomic<int>*>(page);
  std::atomic<int>* called = building + 1;
  MeasureOptions options;
  options.build_workers = 2;
  options.hooks.before_build = [building](const Trial& trial) {
    if (trial.id >= 2) return;
    ++*building;
    const Clock::time_point start = Clock::now();
    while (seconds_since(start) < 0.5) {
    }
  };
  options.hooks.call = [called](const Trial& trial, const auto& call, auto&&) {
    if (trial.id < 2) ++*called;
    call();
  };
  start_model(options);
  measurer_->submit_together({trials_[0], trials_[1]});
  const Clock::time_point start = Clock::now();
  while (*building < 2 && seconds_since(start) < 20) usleep(1000);
  measurer_->cancel();
  measurer_->submit_together({trials_[2], trials_[3]});
  const auto all = collect_all(*measurer_);
  ASSERT_EQ(all.size(), 2u);
  for (const Measurement& m : all) EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
  EXPECT_EQ(*called, 0);
  munmap(page, 2 * sizeof(int));
}

// What was built for an earlier batch is not built again.
TEST_F(InPlace, TheSameCandidatesAreBuiltOnce) {
  void* page =
      mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* built = static_cast<std::atomic<int>*>(page);
  MeasureOptions options;
  options.hooks.before_build = [built](const Trial&) { ++*built; };
  start_model(options);
  for (int batch = 0; batch < 2; ++batch) {
    measurer_->submit_together(trials_);
    for (const Measurement& m : collect_all(*measurer_))
      EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
    EXPECT_EQ(*built, static_cast<int>(kTasks));
  }
  munmap(page, sizeof(int));
}

}  // namespace
}  // namespace tessera::measure
