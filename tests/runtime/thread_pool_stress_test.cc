// Orders of events that a plain use of the pool meets rarely. Run under the tsan preset as well.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/machine/runtime/thread_pool.h"

namespace tessera::runtime {
namespace {

using std::chrono::milliseconds;

void add_count(void* closure, std::int64_t begin, std::int64_t end, std::int32_t /*worker*/) {
  static_cast<std::atomic<std::int64_t>*>(closure)->fetch_add(end - begin,
                                                              std::memory_order_relaxed);
}

TEST(ThreadPoolStress, HundredThousandTinyLoops) {
  ThreadPool pool({.threads = 2});
  std::atomic<std::int64_t> total{0};
  std::int64_t expected = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::int64_t n = i % 5;
    expected += n;
    pool.parallel_for(add_count, &total, n);
  }
  EXPECT_EQ(total.load(), expected);
}

TEST(ThreadPoolStress, WorkersThatParkBetweenLoops) {
  for (const auto& [threads, spin_us] :
       {std::pair(2, 0), {2, 1}, {2, 50}, {5, 0}, {9, 1}, {16, 0}}) {
    ThreadPool pool({.threads = threads, .spin_us = spin_us});
    std::atomic<std::int64_t> total{0};
    for (int i = 0; i < 2000; ++i) {
      pool.parallel_for(add_count, &total, 8);
      // Now and then longer than the spin, so that loops meet workers on their way to sleep.
      if (i % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(spin_us + i % 64));
    }
    EXPECT_EQ(total.load(), 16000);
  }
}

TEST(ThreadPoolStress, MoreThreadsThanCores) {
  ThreadPool pool({.threads = 16});
  std::atomic<std::int64_t> total{0};
  for (int i = 0; i < 2000; ++i) pool.parallel_for(add_count, &total, 64);
  EXPECT_EQ(total.load(), 2000 * 64);
}

TEST(ThreadPoolStress, CallerSleepsUntilALateWorkerIsDone) {
  ThreadPool pool({.threads = 2, .spin_us = 1});
  struct Shared {
    std::atomic<int> finished{0};
    std::atomic<int> entered{0};
  };
  for (int round = 0; round < 5; ++round) {
    Shared shared;
    const tsr_body body = [](void* closure, std::int64_t, std::int64_t, std::int32_t worker) {
      auto& s = *static_cast<Shared*>(closure);
      s.entered.fetch_add(1);
      // Worker 0 stays until the other has an iteration too (or clearly never comes).
      const auto end = std::chrono::steady_clock::now() + milliseconds(500);
      while (worker == 0 && s.entered.load() < 2 && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
      }
      if (worker != 0) std::this_thread::sleep_for(milliseconds(5));
      s.finished.fetch_add(1);
    };
    pool.parallel_for(body, &shared, 2);
    EXPECT_EQ(shared.finished.load(), 2);
  }
}

TEST(ThreadPoolStress, LoopsOfAllLengthsByPoolsOfAllSizes) {
  for (int threads = 1; threads <= 20; ++threads) {
    ThreadPool pool({.threads = threads, .spin_us = threads % 3});
    for (std::int64_t n = 0; n <= 400; n += 1 + n / 7) {
      std::vector<int> visits(static_cast<std::size_t>(n));
      const tsr_body body = [](void* closure, std::int64_t begin, std::int64_t end, std::int32_t) {
        auto& v = *static_cast<std::vector<int>*>(closure);
        for (std::int64_t i = begin; i < end; ++i) ++v[static_cast<std::size_t>(i)];
      };
      pool.parallel_for(body, &visits, n);
      ASSERT_EQ(std::ranges::count(visits, 1), n) << threads << " threads";
    }
  }
}

TEST(ThreadPoolStress, SessionsOfSeveralPoolsAtOnce) {
  std::vector<std::thread> users;
  std::atomic<std::int64_t> total{0};
  users.reserve(4);
  for (int u = 0; u < 4; ++u) {
    users.emplace_back([&] {
      ThreadPool pool({.threads = 2});
      for (int run = 0; run < 20; ++run) {
        const ThreadPool::Session session(pool);
        for (int i = 0; i < 50; ++i) pool.parallel_for(add_count, &total, 10);
      }
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(total.load(), 4 * 20 * 50 * 10);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST(ThreadPoolStress, AsManyThreadsAsTheSystemGrants) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Room for the stacks of a few threads only; the sanitizers need more than any limit.
    const rlimit room{std::size_t{1} << 30, std::size_t{1} << 30};
    if (setrlimit(RLIMIT_AS, &room) != 0) _exit(2);
    ThreadPool pool({.threads = 4000});
    std::atomic<std::int64_t> total{0};
    for (int i = 0; i < 20; ++i) pool.parallel_for(add_count, &total, 5000);
    _exit(pool.threads() < 4000 && total.load() == 100000 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

TEST(ThreadPoolStress, SeveralPoolsAtOnce) {
  std::vector<std::thread> users;
  std::vector<std::int64_t> totals(4);
  for (std::size_t u = 0; u < totals.size(); ++u) {
    users.emplace_back([&totals, u] {
      ThreadPool pool({.threads = 2});
      std::atomic<std::int64_t> total{0};
      for (int i = 0; i < 500; ++i) pool.parallel_for(add_count, &total, 10);
      totals[u] = total.load();
    });
  }
  for (std::thread& user : users) user.join();
  for (const std::int64_t total : totals) EXPECT_EQ(total, 5000);
}

TEST(ThreadPoolStress, SeveralCallersOfOnePoolTakeTurns) {
  ThreadPool pool({.threads = 2});
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> users;
  users.reserve(4);
  for (int u = 0; u < 4; ++u) {
    users.emplace_back([&] {
      for (int i = 0; i < 500; ++i) pool.parallel_for(add_count, &total, 10);
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(total.load(), 20000);
}

TEST(ThreadPoolStress, ALoopOfOnePoolInsideALoopOfAnother) {
  ThreadPool outer({.threads = 2});
  ThreadPool inner({.threads = 2});
  struct Shared {
    ThreadPool* inner;
    std::atomic<std::int64_t> total{0};
  } shared{&inner};
  const tsr_body body = [](void* closure, std::int64_t begin, std::int64_t end, std::int32_t) {
    auto& s = *static_cast<Shared*>(closure);
    for (std::int64_t i = begin; i < end; ++i) s.inner->parallel_for(add_count, &s.total, 10);
  };
  for (int i = 0; i < 50; ++i) outer.parallel_for(body, &shared, 20);
  EXPECT_EQ(shared.total.load(), 50 * 20 * 10);
}

TEST(ThreadPoolStress, ShutDownUnusedSpinningAndParked) {
  for (int i = 0; i < 100; ++i) {
    ThreadPool unused({.threads = 4});
  }
  for (int i = 0; i < 100; ++i) {
    ThreadPool spinning({.threads = 2, .spin_us = 1000});
    std::atomic<std::int64_t> total{0};
    spinning.parallel_for(add_count, &total, 100);
    EXPECT_EQ(total.load(), 100);
  }
  for (int i = 0; i < 20; ++i) {
    ThreadPool parked({.threads = 4, .spin_us = 0});
    std::atomic<std::int64_t> total{0};
    parked.parallel_for(add_count, &total, 100);
    std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(total.load(), 100);
  }
}

}  // namespace
}  // namespace tessera::runtime
