#include "tessera/app/bench/machine.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/app/bench/pool_bench.h"
#include "tessera/app/bench/run_together.h"

namespace tessera::app {
namespace {

constexpr runtime::TimingOptions kShort{.samples = 5, .time_limit_s = 0.05};

TEST(RunTogether, EveryThreadWorksOnceAndAtTheSameTime) {
  for (const int threads : {1, 2, 5}) {
    runtime::ThreadPool pool({.threads = threads});
    std::vector<int> calls(static_cast<std::size_t>(threads));
    std::atomic<int> inside{0};
    const double seconds = run_together(pool, [&](int worker) {
      ++calls[static_cast<std::size_t>(worker)];
      inside.fetch_add(1);
      while (inside.load() < threads) std::this_thread::yield();
    });
    EXPECT_EQ(std::ranges::count(calls, 1), threads);
    EXPECT_GT(seconds, 0);
  }
}

TEST(PeakOf, AResultIsNeverAboveThePeak) {
  PeakOf peak(target::host(), 1, kShort);
  const Result<double> slow = peak.fraction(DType::kF32, 1e-3, false);
  ASSERT_TRUE(slow.ok()) << slow.error().message;
  EXPECT_GT(*slow, 0);
  EXPECT_LT(*slow, 1);
  const double measured = peak.gops(DType::kF32);
  EXPECT_EQ(*peak.fraction(DType::kF32, 1e6 * measured, false), 1);
  EXPECT_EQ(*peak.fraction(DType::kF32, 5e5 * measured, false), 0.5);
}

TEST(PeakOf, SavedOperationsMayBeAboveIt) {
  PeakOf peak(target::host(), 1, kShort);
  ASSERT_TRUE(peak.fraction(DType::kF32, 1e-3, true).ok());
  EXPECT_GT(*peak.fraction(DType::kF32, 1e9, true), 1);
  EXPECT_LT(peak.gops(DType::kF32), 1e9);
  EXPECT_EQ(peak.gops(DType::kF64), 0);
}

TEST(MeasurePool, CountsTheThreadsThatWereGranted) {
  const PoolReport report = measure_pool(3);
  EXPECT_EQ(report.threads, 3);
  EXPECT_GT(report.awake_us, 0);
  EXPECT_GT(report.parked_us, 0);
}

}  // namespace
}  // namespace tessera::app
