#include "tessera/machine/runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tessera::runtime {
namespace {

// Plain counters: two workers on one iteration would be a data race that the thread sanitizer
// reports.
struct Visits {
  explicit Visits(std::int64_t n) : count(static_cast<std::size_t>(n)) {}

  static void body(void* closure, std::int64_t begin, std::int64_t end, std::int32_t /*worker*/) {
    auto& self = *static_cast<Visits*>(closure);
    for (std::int64_t i = begin; i < end; ++i) ++self.count[static_cast<std::size_t>(i)];
  }

  std::vector<int> count;
};

class ThreadPoolOf : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolOf, VisitsEachIterationOnce) {
  ThreadPool pool({.threads = GetParam()});
  EXPECT_EQ(pool.threads(), GetParam());
  for (const std::int64_t n : {0, 1, 2, 3, 7, 16, 97, 1000, 65537}) {
    Visits visits(n);
    pool.parallel_for(Visits::body, &visits, n);
    EXPECT_EQ(std::ranges::count(visits.count, 1), n);
  }
}

TEST_P(ThreadPoolOf, ResultsOfWorkersAreVisibleAfterwards) {
  ThreadPool pool({.threads = GetParam()});
  constexpr std::int64_t kCount = 64;
  Visits visits(kCount);
  for (int round = 1; round <= 200; ++round) {
    pool.parallel_for(Visits::body, &visits, kCount);
    ASSERT_EQ(std::accumulate(visits.count.begin(), visits.count.end(), 0), round * kCount);
  }
}

TEST_P(ThreadPoolOf, WorkerNumbersAreInRangeAndNotUsedTwiceAtOnce) {
  ThreadPool pool({.threads = GetParam()});
  struct Shared {
    std::vector<std::atomic<int>> inside;
    std::atomic<int> violations{0};
  } shared{std::vector<std::atomic<int>>(static_cast<std::size_t>(GetParam()))};
  const tsr_body body = [](void* closure, std::int64_t, std::int64_t, std::int32_t worker) {
    auto& s = *static_cast<Shared*>(closure);
    if (worker < 0 || worker >= static_cast<std::int32_t>(s.inside.size())) {
      s.violations.fetch_add(1);
      return;
    }
    auto& slot = s.inside[static_cast<std::size_t>(worker)];
    if (slot.fetch_add(1) != 0) s.violations.fetch_add(1);
    std::this_thread::yield();
    slot.fetch_sub(1);
  };
  for (int round = 0; round < 100; ++round) pool.parallel_for(body, &shared, 40);
  EXPECT_EQ(shared.violations.load(), 0);
}

TEST_P(ThreadPoolOf, NestedLoopsRunSeriallyUnderTheSameWorker) {
  ThreadPool pool({.threads = GetParam()});
  struct Nested {
    ThreadPool* pool;
    std::vector<std::int64_t> inner_sum;
    std::atomic<int> violations{0};
  } nested{&pool, std::vector<std::int64_t>(50)};
  const tsr_body outer = [](void* closure, std::int64_t begin, std::int64_t end,
                            std::int32_t worker) {
    auto& n = *static_cast<Nested*>(closure);
    for (std::int64_t i = begin; i < end; ++i) {
      struct Inner {
        Nested* nested;
        std::size_t row;
        std::int32_t worker;
        int calls = 0;
      } inner{&n, static_cast<std::size_t>(i), worker};
      const tsr_body inner_body = [](void* c, std::int64_t b, std::int64_t e, std::int32_t w) {
        auto& self = *static_cast<Inner*>(c);
        if (w != self.worker || ++self.calls > 1) self.nested->violations.fetch_add(1);
        for (std::int64_t j = b; j < e; ++j) self.nested->inner_sum[self.row] += j;
      };
      n.pool->parallel_for(inner_body, &inner, 100);
    }
  };
  pool.parallel_for(outer, &nested, 50);
  EXPECT_EQ(nested.violations.load(), 0);
  EXPECT_EQ(std::ranges::count(nested.inner_sum, 4950), 50);
}

TEST_P(ThreadPoolOf, HostInterfaceRunsTheSamePool) {
  ThreadPool pool({.threads = GetParam()});
  tsr_host* host = pool.host();
  EXPECT_EQ(host->num_workers, GetParam());
  Visits visits(123);
  host->parallel_for(host, Visits::body, &visits, 123);
  EXPECT_EQ(std::ranges::count(visits.count, 1), 123);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolOf, ::testing::Values(1, 2, 3, 8),
                         [](const auto& size) { return std::to_string(size.param) + "Threads"; });

TEST(ThreadPool, SeveralThreadsTakePart) {
  ThreadPool pool({.threads = 2});
  struct Shared {
    std::atomic<int> arrived{0};
    std::atomic<bool> both{false};
  } shared;
  const tsr_body body = [](void* closure, std::int64_t, std::int64_t, std::int32_t) {
    auto& s = *static_cast<Shared*>(closure);
    s.arrived.fetch_add(1);
    // Each of the two iterations waits for the other: only two threads can finish early.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (s.arrived.load() < 2 && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    if (s.arrived.load() == 2) s.both.store(true);
  };
  pool.parallel_for(body, &shared, 2);
  EXPECT_TRUE(shared.both.load());
}

TEST(ThreadPool, PartsAreNoLargerThanAnEighthOfAShare) {
  ThreadPool pool({.threads = 2});
  std::atomic<std::int64_t> largest{0};
  const tsr_body body = [](void* closure, std::int64_t begin, std::int64_t end, std::int32_t) {
    auto& most = *static_cast<std::atomic<std::int64_t>*>(closure);
    std::int64_t seen = most.load();
    while (end - begin > seen && !most.compare_exchange_weak(seen, end - begin)) {
    }
  };
  pool.parallel_for(body, &largest, 800);
  EXPECT_EQ(largest.load(), 50);
}

TEST(ThreadPool, HugeLoopsAreCutWithoutOverflow) {
  ThreadPool pool({.threads = 3});
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max() - 5;
  struct Parts {
    std::mutex mutex;
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
  } parts;
  const tsr_body body = [](void* closure, std::int64_t begin, std::int64_t end, std::int32_t) {
    auto& p = *static_cast<Parts*>(closure);
    const std::lock_guard lock(p.mutex);
    p.all.emplace_back(begin, end);
  };
  pool.parallel_for(body, &parts, kHuge);
  std::ranges::sort(parts.all);
  std::int64_t next = 0;
  for (const auto& [begin, end] : parts.all) {
    EXPECT_EQ(begin, next);
    EXPECT_LT(begin, end);
    next = end;
  }
  EXPECT_EQ(next, kHuge);
}

// Nobody leaves before all have come, so nobody can take a part of another's share.
struct Meeting {
  explicit Meeting(int threads) : expected(threads), worker_of(static_cast<std::size_t>(threads)) {}

  static void body(void* closure, std::int64_t begin, std::int64_t end, std::int32_t worker) {
    auto& self = *static_cast<Meeting*>(closure);
    for (std::int64_t i = begin; i < end; ++i) self.worker_of[static_cast<std::size_t>(i)] = worker;
    self.arrived.fetch_add(static_cast<int>(end - begin));
    while (self.arrived.load() < self.expected) std::this_thread::yield();
  }

  std::atomic<int> arrived{0};
  int expected;
  std::vector<int> worker_of;
};

TEST_P(ThreadPoolOf, EachWorkerRunsTheSameShareOfEveryLoop) {
  ThreadPool pool({.threads = GetParam()});
  std::vector<int> in_order(static_cast<std::size_t>(GetParam()));
  std::iota(in_order.begin(), in_order.end(), 0);
  for (int round = 0; round < 20; ++round) {
    Meeting meeting(GetParam());
    pool.parallel_for(Meeting::body, &meeting, GetParam());
    EXPECT_EQ(meeting.worker_of, in_order);
  }
}

TEST(ThreadPool, AShortLoopEngagesNoMoreWorkersThanIterations) {
  ThreadPool pool({.threads = 8});
  std::atomic<int> highest{0};
  const tsr_body body = [](void* closure, std::int64_t, std::int64_t, std::int32_t worker) {
    auto& most = *static_cast<std::atomic<int>*>(closure);
    int seen = most.load();
    while (worker > seen && !most.compare_exchange_weak(seen, worker)) {
    }
  };
  for (int round = 0; round < 200; ++round) pool.parallel_for(body, &highest, 3);
  EXPECT_LT(highest.load(), 3);
}

TEST(ThreadPool, AWorkerThatStaysAwayDelaysOnlyWhatItHasBegun) {
  ThreadPool pool({.threads = 4});
  constexpr int kCount = 32;
  std::atomic<int> done{0};
  // Worker 1 stays in its first part until all other parts are done, those of its share as well.
  const tsr_body body = [](void* closure, std::int64_t begin, std::int64_t end,
                           std::int32_t worker) {
    auto& d = *static_cast<std::atomic<int>*>(closure);
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (worker == 1 && d.load() < kCount - 1 && std::chrono::steady_clock::now() < patience) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(worker != 1 || d.load() >= kCount - 1);
    d.fetch_add(static_cast<int>(end - begin));
  };
  pool.parallel_for(body, &done, kCount);
  EXPECT_EQ(done.load(), kCount);
}

bool all_sleep(const ThreadPool& pool) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (pool.sleeping() < pool.threads() - 1) {
    if (std::chrono::steady_clock::now() > patience) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST_P(ThreadPoolOf, SleepsWhenNothingIsToDoAndWakesForALoop) {
  ThreadPool pool({.threads = GetParam()});
  EXPECT_TRUE(all_sleep(pool));
  for (int round = 0; round < 5; ++round) {
    Meeting meeting(GetParam());
    pool.parallel_for(Meeting::body, &meeting, GetParam());
    EXPECT_TRUE(all_sleep(pool));
  }
}

TEST(ThreadPool, SessionsNestAndEnd) {
  ThreadPool pool({.threads = 2});
  {
    const ThreadPool::Session outer(pool);
    const ThreadPool::Session inner(pool);
    Visits visits(100);
    pool.parallel_for(Visits::body, &visits, 100);
    EXPECT_EQ(std::ranges::count(visits.count, 1), 100);
    // A run that does nothing for long lets its workers sleep as well.
    EXPECT_TRUE(all_sleep(pool));
  }
  EXPECT_TRUE(all_sleep(pool));
}

TEST(ThreadPool, TooFewThreadsCountAsOne) {
  ThreadPool pool({.threads = -3});
  EXPECT_EQ(pool.threads(), 1);
  Visits visits(5);
  pool.parallel_for(Visits::body, &visits, 5);
  EXPECT_EQ(std::ranges::count(visits.count, 1), 5);
}

TEST(ThreadPool, NegativeCountDoesNothing) {
  ThreadPool pool({.threads = 2});
  pool.parallel_for([](void*, std::int64_t, std::int64_t, std::int32_t) { FAIL(); }, nullptr, -1);
}

}  // namespace
}  // namespace tessera::runtime
