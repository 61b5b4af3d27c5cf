#include "tessera/app/bench/pool_bench.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "tessera/app/bench/run_together.h"
#include "tessera/machine/runtime/thread_pool.h"
#include "tessera/support/clock.h"
#include "tessera/support/quantile.h"

namespace tessera::app {
namespace {

constexpr int kAwakeLoops = 5000;
constexpr int kParkedLoops = 200;
constexpr auto kPatience = std::chrono::milliseconds(100);
constexpr double kMostSeconds = 1;  // of one median: loops wait where threads outnumber processors

double median_us(int count, const std::function<void()>& before,
                 const std::function<void()>& call) {
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < count && (i == 0 || seconds_since(begin) < kMostSeconds); ++i) {
    before();
    const Clock::time_point start = Clock::now();
    call();
    times.push_back(1e6 * seconds_since(start));
  }
  return median(std::move(times));
}

void empty_loop(runtime::ThreadPool& pool) {
  pool.parallel_for([](void*, std::int64_t, std::int64_t, std::int32_t) {}, nullptr,
                    pool.threads());
}

void meeting_loop(runtime::ThreadPool& pool) {
  run_together(pool, [](int) {});
}

// Until all workers sleep, or for as long as one may hope.
void wait_for_sleep(runtime::ThreadPool& pool) {
  const Clock::time_point end = Clock::now() + kPatience;
  while (pool.sleeping() < pool.threads() - 1 && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  // The count rises shortly before the system call.
  std::this_thread::sleep_for(std::chrono::microseconds(200));
}

}  // namespace

PoolReport measure_pool(int threads, bool parked) {
  runtime::ThreadPool pool({.threads = threads});
  PoolReport report{.threads = pool.threads()};
  {
    const runtime::ThreadPool::Session session(pool);
    const auto warm = [] {};
    for (int i = 0; i < 100; ++i) meeting_loop(pool);
    report.awake_us = median_us(kAwakeLoops, warm, [&] { empty_loop(pool); });
    report.awake_all_us = median_us(kAwakeLoops, warm, [&] { meeting_loop(pool); });
  }
  if (!parked) return report;
  const auto sleep = [&] { wait_for_sleep(pool); };
  report.parked_us = median_us(kParkedLoops, sleep, [&] { empty_loop(pool); });
  report.parked_all_us = median_us(kParkedLoops, sleep, [&] { meeting_loop(pool); });
  return report;
}

}  // namespace tessera::app
