#include "tessera/machine/runtime/timing.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tessera/machine/runtime/affinity.h"
#include "tessera/machine/runtime/run_queue.h"

namespace tessera::runtime {
namespace {

void spin_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Three calls a run: two to calibrate, one sample.
TEST(InterleavedTimer, TakesADisturbedRunAgainAndKeepsTheCleanerOne) {
  if (!RunQueueClock().available()) GTEST_SKIP() << "the kernel does not tell who waited";
  const auto run = [](int busy_calls, int* asked) {
    InterleavedTimer timer({.sample_s = 0, .samples = 1, .min_samples = 1, .time_limit_s = 0});
    timer.add(Sampler([=](int, bool) -> std::optional<TakenSample> {
      const bool busy = ++*asked <= busy_calls;
      return TakenSample{.sample = {.total_s = 1.0 * *asked, .wait_s = busy ? 1.0 : 0.0},
                         .late_wait_s = 0};
    }));
    return timer.run_undisturbed().front();
  };
  int asked = 0;
  const Samples quiet = run(0, &asked);
  EXPECT_TRUE(quiet.trusted);
  EXPECT_EQ(asked, 3) << "nothing to take again";
  asked = 0;
  const Samples again = run(3, &asked);
  EXPECT_TRUE(again.trusted);
  EXPECT_EQ(again.median_s(), 6);
  asked = 0;
  const Samples busy = run(100, &asked);
  EXPECT_FALSE(busy.trusted);
  EXPECT_EQ(busy.median_s(), 3) << "neither is better";
  EXPECT_EQ(asked, 6) << "not for ever";
}

TEST(Samples, PercentilesInterpolate) {
  const Samples s{.call_s = {4, 1, 3, 2, 5}};
  EXPECT_DOUBLE_EQ(s.median_s(), 3);
  EXPECT_DOUBLE_EQ(s.p10_s(), 1.4);
  EXPECT_DOUBLE_EQ(s.p90_s(), 4.6);
  EXPECT_DOUBLE_EQ(s.percentile(-1), 1);
  EXPECT_DOUBLE_EQ(s.percentile(2), 5);
  EXPECT_DOUBLE_EQ((Samples{.call_s = {7}}).median_s(), 7);
}

TEST(IsClean, AllowsOnePercentAndThirtyMicroseconds) {
  EXPECT_TRUE(is_clean({.total_s = 0.010, .wait_s = 0}));
  EXPECT_TRUE(is_clean({.total_s = 0.010, .wait_s = 129e-6}));
  EXPECT_FALSE(is_clean({.total_s = 0.010, .wait_s = 131e-6}));
}

TEST(Summarize, KeepsCleanSamplesOnly) {
  const TimingOptions options{.min_samples = 2};
  const Samples s = summarize({{.total_s = 0.010, .wait_s = 0},
                               {.total_s = 0.030, .wait_s = 0.015},
                               {.total_s = 0.012, .wait_s = 0.0001}},
                              2, true, options);
  EXPECT_EQ(s.call_s, (std::vector<double>{0.005, 0.006}));
  EXPECT_EQ(s.clean, 2);
  EXPECT_EQ(s.dirty, 1);
  EXPECT_TRUE(s.trusted);
}

TEST(Summarize, FallsBackToTheLeastDisturbedAndSaysSo) {
  const TimingOptions options{.min_samples = 2};
  const Samples s = summarize({{.total_s = 0.040, .wait_s = 0.030},
                               {.total_s = 0.020, .wait_s = 0.004},
                               {.total_s = 0.010, .wait_s = 0}},
                              1, true, options);
  EXPECT_EQ(s.call_s, (std::vector<double>{0.020, 0.010}));
  EXPECT_EQ(s.clean, 1);
  EXPECT_FALSE(s.trusted);
}

TEST(Summarize, DoesNotTrustSamplesThatDifferForAnotherReasonThanWaits) {
  const auto trusted = [](double slow_s) {
    std::vector<RawSample> raw(12, {.total_s = 0.010, .wait_s = 0});
    for (std::size_t i = 0; i < 4; ++i) raw[3 * i].total_s = slow_s;
    return summarize(raw, 1, true, {.min_samples = 5}).trusted;
  };
  EXPECT_TRUE(trusted(0.014));
  EXPECT_FALSE(trusted(0.017)) << "the cache was shared, perhaps";
}

TEST(Summarize, WithoutStatisticsNothingIsTrusted) {
  const Samples s = summarize({{.total_s = 1, .wait_s = 0}, {.total_s = 2, .wait_s = 0}}, 1, false,
                              TimingOptions{.min_samples = 1});
  EXPECT_EQ(s.call_s.size(), 2U);
  EXPECT_FALSE(s.checked);
  EXPECT_FALSE(s.trusted);
}

TEST(TimeCalls, RepeatsShortCallsToFillASample) {
  int calls = 0;
  const Samples s = time_calls(
      [&calls] {
        ++calls;
        spin_for(std::chrono::microseconds(20));
      },
      {.sample_s = 1e-3, .samples = 3, .min_samples = 1, .time_limit_s = 0.5});
  EXPECT_GT(s.calls_per_sample, 5);
  EXPECT_LE(s.calls_per_sample, 60);
  EXPECT_GE(s.median_s(), 20e-6);
  EXPECT_GE(calls, s.calls_per_sample * (s.clean + s.dirty));
  EXPECT_LE(s.p10_s(), s.median_s());
  EXPECT_LE(s.median_s(), s.p90_s());
}

TEST(TimeCalls, DoesNotRepeatLongCalls) {
  const Samples s = time_calls([] { spin_for(std::chrono::milliseconds(3)); },
                               {.sample_s = 1e-3, .samples = 2, .time_limit_s = 0.2});
  EXPECT_EQ(s.calls_per_sample, 1);
  EXPECT_GE(s.median_s(), 3e-3);
}

TEST(TimeCalls, EndsAtTheTimeLimitWithAResult) {
  const Samples s = time_calls([] { spin_for(std::chrono::milliseconds(2)); },
                               {.sample_s = 1e-3, .samples = 1000000, .time_limit_s = 0.05});
  EXPECT_GE(s.call_s.size(), 1U);
  EXPECT_LT(s.clean + s.dirty, 100);
}

TEST(InterleavedTimer, TakesTurnsAndTellsThemApart) {
  std::vector<int> order;
  InterleavedTimer timer({.sample_s = 0, .samples = 4, .min_samples = 1, .time_limit_s = 1});
  const int slow = timer.add([&order] {
    order.push_back(0);
    spin_for(std::chrono::microseconds(3000));
  });
  const int fast = timer.add([&order] {
    order.push_back(1);
    spin_for(std::chrono::microseconds(300));
  });
  const std::vector<Samples> results = timer.run();
  ASSERT_EQ(results.size(), 2U);
  EXPECT_GT(results[static_cast<std::size_t>(slow)].median_s(),
            results[static_cast<std::size_t>(fast)].p10_s());
  // After the two calibrations (two calls each) the callables alternate, the first call of each
  // sample not timed.
  ASSERT_GE(order.size(), 12U);
  for (std::size_t i = 4; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i / 2 % 2));
}

TEST(InterleavedTimer, SamplersAreAskedAndMayFail) {
  InterleavedTimer timer({.sample_s = 1e-3, .samples = 3, .min_samples = 1, .time_limit_s = 1});
  int asked = 0;
  timer.add(Sampler([&](int calls, bool) -> std::optional<TakenSample> {
    ++asked;
    // Ten calls a millisecond; the second sample turns out disturbed only later.
    return TakenSample{.sample = {.total_s = 1e-4 * calls, .wait_s = 0},
                       .late_wait_s = asked == 7 ? 1.0 : 0.0};
  }));
  timer.add(Sampler([left = 4](int, bool) mutable -> std::optional<TakenSample> {
    if (left-- == 0) return std::nullopt;
    return TakenSample{.sample = {.total_s = 1, .wait_s = 0}};
  }));
  const std::vector<Samples> s = timer.run();
  ASSERT_EQ(s.size(), 2u);
  EXPECT_GE(s[0].calls_per_sample, 10);
  EXPECT_NEAR(s[0].median_s(), 1e-4, 1e-9);
  EXPECT_TRUE(s[1].call_s.empty());
}

TEST(InterleavedTimer, WithoutCallablesReturnsNothing) {
  EXPECT_TRUE(InterleavedTimer().run().empty());
}

TEST(RunQueueClock, SeesThreadsThatShareACore) {
  RunQueueClock clock;
  if (!clock.available()) GTEST_SKIP() << "this kernel keeps no schedstat";
  // Three busy threads on one core: two of them wait at any time, and show it while they live.
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([] {
      EXPECT_TRUE(pin_current_thread(0).ok());
      spin_for(std::chrono::milliseconds(60));
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  EXPECT_GT(clock.elapsed_wait_ns(), 0);
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace tessera::runtime
